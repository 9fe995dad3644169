"""Quotas: how much one tenant may have."""

from tracehouse.frozen import Frozen


class Quotas(Frozen):
    """The largest number of waiting trace requests and of stored bytes; None is no limit."""

    queued_max: int | None = None
    stored_max_bytes: int | None = None


NO_QUOTAS = Quotas()
