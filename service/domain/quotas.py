"""Quotas: how much one tenant may have."""

from typing import Self

from tracehouse.frozen import Frozen


class Quotas(Frozen):
    """The largest number of waiting trace requests and of stored bytes; None is no limit."""

    queued_max: int | None = None
    stored_max_bytes: int | None = None

    def or_else(self, other: Self) -> Self:
        """Return these quotas, with the other's in the place of those that are None."""
        own = {name: value for name, value in self.model_dump().items() if value is not None}
        return other.model_copy(update=own)


NO_QUOTAS = Quotas()
