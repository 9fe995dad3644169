"""Messages between a parent and a runner, which holds an artifact."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from service.protocol.messages import FailureReply, not_too_large
from service.protocol.reference import Differentiate, GradientReply
from tracehouse.contract.contract import Contract
from tracehouse.contract.structure import Argument, Structure
from tracehouse.frozen import Frozen
from tracehouse.spec.raced_form import RacedForm
from tracehouse.spec.trace_spec import DeviceName, ServedForm
from tracehouse.tensors.tensor import TensorSpec


class Load(Frozen):
    """Load the archive in descriptor 0, and replay the golden cases in descriptor 1 if there is one.

    Without a tolerance, the cases only warm the artifact up: a rejected one is known to answer otherwise.
    """

    kind: Literal["load"] = "load"
    contract: Contract
    device: DeviceName
    served_form: ServedForm | None
    # Whether parameters need gradients: those of a module that was loaded in inference mode never get any.
    gradients: bool
    tolerance: float | None
    threads: int
    # Made of what `served_form` says.
    raced_form: RacedForm | None = None
    # By how much the first answer to each shape may differ where another runtime has the form.
    form_tolerance: float = 0.0
    # Whether it fails if a number that is rounded otherwise may be another answer.
    refuses_steps: bool = False


class Infer(Frozen):
    """Call a method; the frame's body is the inputs' bytes in the contract's order.

    With `arguments`, which are the structure of the inputs, the reply has all that the artifact returns, even if the
    contract says otherwise. The tensors get their names, and the constants beside them, from `returns`, if they stand
    as it says. With `seed`, torch's generators are seeded before the call. From this call on, torch has so many
    `threads`, if that is given.
    """

    kind: Literal["infer"] = "infer"
    method: str
    inputs: list[TensorSpec]
    answer_max_bytes: int
    arguments: list[Argument] | None = None
    returns: Structure | None = None
    seed: int | None = None
    threads: int | None = Field(None, ge=1)


class RunnerReady(Frozen):
    """The artifact is loaded, and its golden cases were replayed."""

    kind: Literal["ready"] = "ready"
    resident_bytes: int = Field(ge=0)


class OutputReply(Frozen):
    """The outputs; the frame's body is their bytes, one after the other. `drew`: random numbers were drawn for them.

    That is said of a request with `arguments`.
    """

    kind: Literal["inferred"] = "inferred"
    outputs: list[TensorSpec]
    returns: Structure | None = None
    drew: bool = False


ToRunner = Annotated[Infer | Differentiate, Field(discriminator="kind")]

to_runner: TypeAdapter[Infer | Differentiate] = TypeAdapter(ToRunner)

FromRunner = Annotated[
    RunnerReady | OutputReply | GradientReply | FailureReply,
    Field(discriminator="kind"),
    BeforeValidator(not_too_large),
]

from_runner: TypeAdapter[RunnerReady | OutputReply | GradientReply | FailureReply] = TypeAdapter(FromRunner)
