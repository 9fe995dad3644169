"""Everything that can go wrong, by whose fault it is.

The families say whose fault an error is. The first line of an error's docstring is its title, the second paragraph its
remedy; its class name gives its slug; `facts` are values that a client can act on. Only `service.api.problems` knows
which HTTP status a family has.

ServiceError                service
├─ CallerError              caller
│  ├─ MalformedRequest               the body could not be read
│  ├─ InvalidRequest                 the body was read and says something impossible
│  ├─ PayloadTooLarge
│  ├─ UnsupportedMediaType
│  ├─ Unauthenticated                the caller is not known
│  ├─ Forbidden                      the caller may not do this
│  ├─ TooManyRequests                the caller may do this later
│  ├─ NotFound
│  ├─ Conflict
│  ├─ PreconditionFailed
│  ├─ PreconditionRequired
│  └─ ContractViolation              an inference input lies outside the artifact's contract
├─ TraceError               model    an outcome of tracing; stored, never raised to a client
│  └─ TracerLost            service  tried again, then final
├─ InferenceError           model
│  ├─ InferenceTimeout      model
│  └─ RunnerLost            service
├─ BlobMissing              service  a row names bytes that are gone
├─ ContentDamaged           service  stored bytes do not match their digest any more
└─ Unavailable              service  come back later
"""

import re
from collections.abc import Mapping
from functools import cache
from inspect import cleandoc
from typing import Any, ClassVar, Literal

from pydantic import JsonValue

from tracehouse.frozen import Frozen

Fault = Literal["caller", "model", "service"]


_BY_SLUG: dict[str, type["ServiceError"]] = {}


class ServiceError(Exception):
    """The service could not do what was asked"""

    fault: ClassVar[Fault] = "service"

    def __init_subclass__(cls) -> None:
        _BY_SLUG[cls.slug()] = cls

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts

    @classmethod
    @cache
    def slug(cls) -> str:
        """Return the name of the error in documents: `ShapeMismatch` → `shape-mismatch`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    @classmethod
    def title(cls) -> str:
        """Return the error's title: the first line of its docstring."""
        return (cls.__doc__ or cls.__name__).strip().splitlines()[0]

    @classmethod
    @cache
    def remedy(cls) -> str | None:
        """Return what to do about the error: the second paragraph of its docstring, or None if there is none."""
        _, *lines = cleandoc(cls.__dict__.get("__doc__") or "").splitlines()
        return " ".join(lines).strip() or None

    def failure(self) -> "Failure":
        """Return the error as data."""
        return Failure(slug=self.slug(), detail=self.detail, facts=self.facts)


_BY_SLUG[ServiceError.slug()] = ServiceError


class Failure(Frozen):
    """An error as data, as children send it and the database stores it."""

    slug: str
    detail: str
    facts: dict[str, JsonValue] = {}


class CallerError(ServiceError):
    """The request cannot be answered as it stands"""

    fault: ClassVar[Fault] = "caller"


class InvalidRequest(CallerError):
    """The request says something that cannot be done"""


class NotFound(CallerError):
    """There is no such thing here"""


class TraceError(ServiceError):
    """The model could not be traced"""

    fault: ClassVar[Fault] = "model"


class InferenceError(ServiceError):
    """The artifact could not answer"""

    fault: ClassVar[Fault] = "model"


def by_slug() -> Mapping[str, type[ServiceError]]:
    """Return every error class, families included, by its slug."""
    return _BY_SLUG
