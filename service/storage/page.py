"""A page of a list, and the cursor that gives the next one."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from service.domain.errors import InvalidCursor

Item = TypeVar("Item")
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """`next_cursor` is None on the last page."""

    items: Sequence[Item]
    next_cursor: str | None


class Cursor(Generic[Key]):
    """The place after an item, as text that a caller gives back unread. `key` is what the list is ordered by."""

    def __init__(self, key: type[Key]) -> None:
        self._key: TypeAdapter[Key] = TypeAdapter(key)

    def place(self, cursor: str) -> Key:
        """Raises InvalidCursor."""
        try:
            return self._key.validate_json(base64.b64decode(cursor, altchars=b"-_", validate=True))
        except (binascii.Error, ValueError, ValidationError) as error:
            raise InvalidCursor("this list gave out no such cursor") from error

    def page(self, found: Sequence[Item], limit: int, key: Callable[[Item], Key]) -> Page[Item]:
        """The first `limit` of the items; one more was asked for, to know whether there is a next page."""
        items = found[:limit]
        if len(found) <= limit:
            return Page(items, None)
        return Page(items, base64.urlsafe_b64encode(self._key.dump_json(key(items[-1]))).decode())
