"""Messages between a parent and the reference, which holds the eager model."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from service.protocol.messages import FailureReply, RefusalReply, not_too_large
from tracehouse.contract.key_orders import KeyOrder
from tracehouse.contract.structure import Argument, Structure
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import TensorSpec


class CallReply(Frozen):
    """One call of the request, bound to its parameters' names. The frame's body is the inputs' bytes.

    A reference gets the same message as a tracing child. It replies with the example of each method, each followed by
    the reply to an `Ask` of it, and then with the check inputs.
    """

    kind: Literal["bound"] = "bound"
    case: str
    method: str
    arguments: list[Argument]
    keywords: list[str] = []  # the arguments that `**kwargs` takes
    inputs: list[TensorSpec]
    without_fast_paths: bool = False  # whether the process answers without torch's fast paths


class Ask(Frozen):
    """Call the eager model as in the case, but on the inputs in the frame's body; stop it after `within_s` seconds.

    With `key_order`, the keys of one dict of the call come in that order; with `float64`, a copy in float64 answers.
    """

    kind: Literal["ask"] = "ask"
    case: str
    method: str
    inputs: list[TensorSpec]
    seed: int
    within_s: float | None
    key_order: KeyOrder | None = None
    float64: bool = False


class AnswerReply(Frozen):
    """The outputs of the eager model, whose bytes are the frame's body.

    `drew`: it drew random numbers; `drew_in_python`: some of them with Python's or NumPy's generator.
    """

    kind: Literal["answered"] = "answered"
    outputs: list[TensorSpec]
    returns: Structure
    drew: bool
    drew_in_python: bool = False
    seconds: float = Field(ge=0, allow_inf_nan=False)


class Differentiate(Frozen):
    """Call the model as in the named case, but on the inputs in the frame's body, and differentiate its outputs.

    The eager model and the artifact both get this, and weight their outputs with the same numbers from the seed. The
    artifact's outputs get their names from `returns`.
    """

    kind: Literal["differentiate"] = "differentiate"
    case: str
    method: str
    arguments: list[Argument]
    returns: Structure | None = None
    inputs: list[TensorSpec]
    seed: int
    within_s: float | None
    answer_max_bytes: int


class GradientReply(Frozen):
    """The outputs and the gradients; the frame's body is their bytes. `without` names tensors that got no gradient."""

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
