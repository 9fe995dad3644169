"""Messages between a parent and the reference, which holds the eager model."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from service.protocol.messages import FailureReply, RefusalReply, not_too_large
from tracehouse.contract.structure import Argument, Structure
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import TensorSpec


class CallReply(Frozen):
    """A call of the request's, bound to its parameters' names. The frame's body is the inputs' bytes.

    A reference is sent what a tracing child is; it says the example of each method, and after each what it answers to
    it as if asked, and then the check inputs.
    """

    kind: Literal["bound"] = "bound"
    case: str
    method: str
    arguments: list[Argument]
    inputs: list[TensorSpec]


class Ask(Frozen):
    """Call the eager model as in that case, but on the inputs in the frame's body; stop it after `within_s`."""

    kind: Literal["ask"] = "ask"
    case: str
    method: str
    inputs: list[TensorSpec]
    seed: int
    within_s: float | None


class AnswerReply(Frozen):
    """What the eager model returned, and how soon. The frame's body is the outputs' bytes. `drew`: a random number."""

    kind: Literal["answered"] = "answered"
    outputs: list[TensorSpec]
    returns: Structure
    drew: bool
    seconds: float = Field(ge=0, allow_inf_nan=False)


class Differentiate(Frozen):
    """Call it as in that case, but on the inputs in the frame's body, and go back from what it returns.

    Either side is asked so. What they return is weighted alike: the numbers are drawn from the seed.
    """

    kind: Literal["differentiate"] = "differentiate"
    case: str
    method: str
    arguments: list[Argument]
    inputs: list[TensorSpec]
    seed: int
    within_s: float | None
    answer_max_bytes: int


class GradientReply(Frozen):
    """The outputs of that call, and the gradients; the frame's body is their bytes. `without` are names of what could
    have a gradient, and has none."""

    kind: Literal["differentiated"] = "differentiated"
    tensors: list[TensorSpec]
    without: list[str]


ToReference = Annotated[Ask | Differentiate, Field(discriminator="kind")]

to_reference: TypeAdapter[Ask | Differentiate] = TypeAdapter(ToReference)

FromReference = Annotated[
    CallReply | AnswerReply | GradientReply | RefusalReply | FailureReply,
    Field(discriminator="kind"),
    BeforeValidator(not_too_large),
]

from_reference: TypeAdapter[CallReply | AnswerReply | GradientReply | RefusalReply | FailureReply] = TypeAdapter(
    FromReference
)
