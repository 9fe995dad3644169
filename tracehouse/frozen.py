"""Frozen: the base of every domain type."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A type whose objects do not change, and which refuses unknown fields: a misspelt option must not be ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def with_new_names(document: Any, renamed: dict[str, str]) -> Any:
    """Return a stored document with its old field names replaced by today's, so that old documents stay readable.

    `renamed` has today's name for each old one. Anything but a dict is returned as it is.
    """
    if not isinstance(document, dict):
        return document
    return {renamed.get(name, name): value for name, value in document.items()}
