"""Arguments that are lists or dicts, as a caller gives them.

Python takes a text apart into letters, a dict into its keys and a tensor into rows, and all of that could be sent.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tracehouse.client.errors import NotSendable
from tracehouse.client.values import is_tensor


def read_list(argument: str, given: Any, remedy: str, kinds: tuple[type, ...] = ()) -> list[Any]:
    """Return the entries of a list, each of which is of one of the kinds, if any are named. None is an empty list.

    One thing of these kinds is a list of itself. `remedy` says what to give. Raises NotSendable.
    """
    if given is None:
        return []
    if kinds and isinstance(given, kinds):
        given = [given]
    if isinstance(given, str | bytes | Mapping) or is_tensor(given) or not isinstance(given, Iterable):
        raise _refusal(argument, given, remedy)
    entries = [*given]
    for place, entry in enumerate(entries):
        if kinds and (not isinstance(entry, kinds) or entry == ""):
            raise _refusal(f"{argument}[{place}]", entry, remedy)
    return entries


def read_dict(argument: str, given: Any, remedy: str) -> dict[Any, Any]:
    """Return a dict. None is an empty one. Raises NotSendable."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _refusal(argument, given, remedy)
    return dict(given)


def _refusal(argument: str, given: Any, remedy: str) -> NotSendable:
    what = "an empty text" if isinstance(given, str) and not given else f"of type {type(given).__name__}"
    return NotSendable(f"{argument} is {what}: {remedy}")
