"""Errors of reading an artifact."""

from tracehouse.errors.base import NotFound


class PrintoutNotFound(NotFound):
    """The artifact has no such printout

    `GET /artifacts/{digest}/printouts` lists the printouts.
    """


class PrintoutsUnreadable(NotFound):
    """The artifact's printouts cannot be read

    Trace the model again with `force`. The archive and inference do not need the printouts.
    """
