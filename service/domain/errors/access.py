"""Errors of access: who asks, and what they may do and how often."""

from tracehouse.errors import CallerError


class Unauthenticated(CallerError):
    """Say who you are"""


class ApiKeyMissing(Unauthenticated):
    """The request has no API key

    Send `Authorization: Bearer` and the key, or give it to the command with `--key` or as TRACEHOUSE_KEY;
    `tracehouse keys create` makes one.
    """


class ApiKeyInvalid(Unauthenticated):
    """The API key is not one of this service's

    Send the whole key as it was shown when it was made; a revoked one needs a successor.
    """


class ApiKeyExpired(Unauthenticated):
    """The API key has expired

    Ask whoever runs the service for a new one.
    """


class Forbidden(CallerError):
    """This may not be done from here, or with this key"""


class ScopeMissing(Forbidden):
    """The API key lacks the scope that this needs

    Use a key with that scope, or with `admin`.
    """


class StorageQuotaExceeded(Forbidden):
    """The tenant has no room left for this

    Ask whoever runs the service for more room: sending it again will not help.
    """


class TooManyRequests(CallerError):
    """More was asked than is allowed for now"""


class RateLimited(TooManyRequests):
    """The API key was used too often in the last minute

    Wait as long as `Retry-After` says.
    """


class QueueQuotaExceeded(TooManyRequests):
    """Too many of the tenant's trace requests are waiting

    Wait until some have run, or cancel some.
    """
