"""Messages that several programs share, and the bounds that hold for every message.

A message is the JSON header of a frame; bytes travel as the frame's body. Parents parse what a child says into
these types and trust nothing in it beyond that.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, JsonValue

from service.protocol.bounds import cut_failure, excess_of
from tracehouse.errors import Failure, ServiceError
from tracehouse.frozen import Frozen

# The case of each method's example; the others are `check_inputs[0]` and so on.
EXAMPLE = "example"


def not_too_large(message: JsonValue) -> JsonValue:
    """Raise ValueError for a message too large to validate: the error for a million mistakes would take gigabytes."""
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
    """A trace or an inference failed, and how."""

    kind: Literal["failed"] = "failed"
    failure: BoundedFailure

    @classmethod
    def of(cls, error: ServiceError) -> Self:
        """Of what is too long to be told, the beginning."""
        return cls(failure=cut_failure(error.failure()))


class RefusalReply(Frozen):
    """The eager model takes no such inputs."""

    kind: Literal["refused"] = "refused"
    failure: BoundedFailure

    @classmethod
    def of(cls, error: ServiceError) -> Self:
        return cls(failure=cut_failure(error.failure()))
