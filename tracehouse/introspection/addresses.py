"""Memory addresses in texts: they differ between runs, and say nothing about a model."""

import re

# As Python prints an address, and as torch's compiler prints one after the name of a class.
_ADDRESS = re.compile(r" (?:object )?at 0x[0-9a-fA-F]+(?=>)| \(of Python compilation unit at: 0x[0-9a-fA-F]+\)")


def without_addresses(text: str) -> str:
    """Return the text without addresses: `<Net object at 0x7f…>` becomes `<Net>`."""
    return _ADDRESS.sub("", text)
