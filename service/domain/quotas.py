"""Quotas: how much one tenant may have."""

from tracehouse.frozen import Frozen


class Quotas(Frozen):
    """Trace requests that wait, and bytes that are kept; None is as many as it likes."""

    queued_max: int | None = None
    stored_max_bytes: int | None = None


NO_QUOTAS = Quotas()
