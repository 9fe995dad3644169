"""Errors of reading an artifact."""

from tracehouse.errors.base import NotFound


class PrintoutNotFound(NotFound):
    """The artifact has no such printout

    `GET /artifacts/{digest}/printouts` lists what there is.
    """


class PrintoutsUnreadable(NotFound):
    """The artifact's printouts cannot be read

    Trace it again with `force`; archive and inference do not need them.
    """
