"""Frozen: the base of every domain type."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable, and strict about unknown fields: a misspelt option must not be ignored in silence."""

    model_config = ConfigDict(frozen=True, extra="forbid")
