"""Frozen: the base of every domain type."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable, and strict about unknown fields: a misspelt option must not be ignored in silence."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def with_new_names(document: Any, renamed: dict[str, str]) -> Any:
    """Return a stored document with its old field names, the keys of `renamed`, replaced by today's names.

    What an earlier release stored stays readable.
    """
    if not isinstance(document, dict):
        return document
    return {renamed.get(name, name): value for name, value in document.items()}
