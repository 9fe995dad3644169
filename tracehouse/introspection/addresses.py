"""Addresses: where an object lies in its process's memory. They differ between runs, and say nothing of a model."""

import re

# As Python has it, and as torch's compiler has it behind the name of a class.
_ADDRESS = re.compile(r" (?:object )?at 0x[0-9a-fA-F]+(?=>)| \(of Python compilation unit at: 0x[0-9a-fA-F]+\)")


def without_addresses(text: str) -> str:
    """What Python prints of objects, as `<Net>`."""
    return _ADDRESS.sub("", text)
