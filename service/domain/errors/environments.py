"""Errors of environments: the request names one that is not there, or that cannot be used."""

from typing import ClassVar

from tracehouse.errors import Fault, InvalidRequest, NotFound, TraceError


class EnvironmentNotFound(NotFound):
    """There is no environment of this name

    `GET /environments` lists the names; `tracehouse environments create` makes one where the service runs.
    """


class UnknownEnvironment(InvalidRequest):
    """The request names an environment that this service does not have

    Name one of `environments`, leave `environment` out, or ask whoever runs the service to make it with
    `tracehouse environments create`.
    """


class EnvironmentUnusable(InvalidRequest):
    """The environment cannot be used as the service runs now

    Ask whoever runs the service to mend what the problem names.
    """


class EnvironmentGone(TraceError):
    """The environment was changed or deleted while the request waited

    Send the request again: it then runs in the environment as it is now.
    """

    fault: ClassVar[Fault] = "caller"
