"""A page of a list, and the cursor of the next page."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError

from service.domain.errors import InvalidCursor

# A forged cursor may have no time or text that a database cannot take.
Moment = Annotated[AwareDatetime, Field(gt=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(3000, 1, 1, tzinfo=UTC))]

Item = TypeVar("Item")
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """The items of a page; `next_cursor` is None on the last page."""

    items: Sequence[Item]
    next_cursor: str | None


class Cursor(Generic[Key]):
    """Cursors of a list that is ordered by `key`: opaque texts for the places after its items."""

    def __init__(self, key: type[Key]) -> None:
        self._key: TypeAdapter[Key] = TypeAdapter(key)

    def place(self, cursor: str) -> Key:
        """Return the key that the cursor stands for. Raises InvalidCursor."""
        try:
            return self._key.validate_json(base64.b64decode(cursor, altchars=b"-_", validate=True))
        except (binascii.Error, ValueError, ValidationError) as error:
            raise InvalidCursor("this cursor is not from this list") from error

    def page(self, items: Sequence[Item], limit: int, key: Callable[[Item], Key]) -> Page[Item]:
        """Return a page of the first `limit` items; one item more was queried, which says if there is a next page."""
        page = items[:limit]
        if len(items) <= limit:
            return Page(page, None)
        return Page(page, base64.urlsafe_b64encode(self._key.dump_json(key(page[-1]))).decode())
