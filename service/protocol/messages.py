"""Messages that several programs share, and the bounds that hold for every message.

A message is the JSON header of a frame; bytes travel as the frame's body. Parents parse a child's messages into these
types and trust nothing in them beyond that.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, JsonValue

from service.protocol.bounds import cut_failure, excess_of
from tracehouse.errors import Failure, ServiceError
from tracehouse.frozen import Frozen


def not_too_large(message: JsonValue) -> JsonValue:
    """Raise ValueError for a message too large to validate: pydantic's error for a million errors takes gigabytes."""
    if excess := excess_of(message):
        raise ValueError(excess)
    return message


def _within_bounds(failure: Failure) -> Failure:
    """Raise ValueError unless the failure is as short as an honest child makes it."""
    if cut_failure(failure) != failure:
        raise ValueError("the failure is over its bounds")
    return failure


BoundedFailure = Annotated[Failure, AfterValidator(_within_bounds)]


class FailureReply(Frozen):
    """The failure of a trace or an inference."""

    kind: Literal["failed"] = "failed"
    failure: BoundedFailure

    @classmethod
    def of(cls, error: ServiceError) -> Self:
        """Make the reply; long texts and facts are cut."""
        return cls(failure=cut_failure(error.failure()))


class RefusalReply(Frozen):
    """The eager model does not accept these inputs."""

    kind: Literal["refused"] = "refused"
    failure: BoundedFailure

    @classmethod
    def of(cls, error: ServiceError) -> Self:
        return cls(failure=cut_failure(error.failure()))
