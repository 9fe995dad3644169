"""Errors of access: who sends a request, what they may do, and how often."""

from tracehouse.errors import CallerError


class Unauthenticated(CallerError):
    """The request does not say who sends it"""


class ApiKeyMissing(Unauthenticated):
    """The request has no API key

    Send `Authorization: Bearer` and the key, or give it to the command with `--key` or as TRACEHOUSE_KEY;
    `tracehouse keys create` makes one.
    """


class ApiKeyInvalid(Unauthenticated):
    """The API key is not one of this service's

    Send the whole key as it was printed when it was made; if it was revoked, ask for a new one.
    """


class ApiKeyExpired(Unauthenticated):
    """The API key has expired

    Ask whoever runs the service for a new one.
    """


class Forbidden(CallerError):
    """The request is forbidden from here or with this key"""


class ScopeMissing(Forbidden):
    """The API key lacks the scope that this request needs

    Use a key with that scope, or with `admin`. Whoever runs the service makes one:
    `tracehouse keys create NAME --scope SCOPE`.
    """


class StorageQuotaExceeded(Forbidden):
    """The tenant has too little room left for this request

    Ask whoever runs the service for more room. Sending it again helps only if other uploads or traces of the tenant
    were under way, which `staged_bytes` counts.
    """


class TooManyRequests(CallerError):
    """Too many requests were sent"""


class RateLimited(TooManyRequests):
    """The API key was used too often in the last minute

    Wait for the seconds in `Retry-After`.
    """


class QueueQuotaExceeded(TooManyRequests):
    """Too many of the tenant's trace requests are waiting

    Wait until some have run, or cancel some.
    """
