"""Frozen: the base of every domain type."""

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError


class Frozen(BaseModel):
    """A type whose objects do not change, and which refuses unknown fields: a misspelt option must not be ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def at_most(most: int) -> BeforeValidator:
    """Refuse an object with more members before each of them is validated, and each unfit one becomes an error.

    A field needs `max_length` beside it, for the JSON schema.
    """

    def check(document: Any) -> Any:
        if isinstance(document, dict) and len(document) > most:
            raise PydanticCustomError(
                "too_many_members", "there are at most {most} members here, not {actual}",
                {"most": most, "actual": len(document)},
            )  # fmt: skip
        return document

    return BeforeValidator(check)


def with_new_names(document: Any, renamed: dict[str, str]) -> Any:
    """Return a stored document with its old field names replaced by today's, so that old documents stay readable.

    `renamed` has today's name for each old one. Anything but a dict is returned as it is.
    """
    if not isinstance(document, dict):
        return document
    return {renamed.get(name, name): value for name, value in document.items()}
