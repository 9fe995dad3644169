"""Every message between a parent and its child: those of a tracing child first, of the reference, then of a runner.

A message is the JSON header of a frame; bytes travel as the frame's body. Parents parse what a child says into
these types and trust nothing in it beyond that.
"""

from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, TypeAdapter

from service.domain.artifact import Form, ModuleAttributes, Submodule, TensorConstants, Versions
from service.domain.contract import Contract, MethodClaim
from service.domain.errors import Failure, ServiceError
from service.domain.exportability import ExportAttempt
from service.domain.frozen import Frozen
from service.domain.structure import Argument, Structure
from service.domain.tensor import TensorSpec
from service.domain.trace_check import Layer, TraceCheck
from service.domain.trace_request import DeviceName, ServedForm, Stage, TraceSpec
from service.domain.way import Parts, Way
from service.sandbox.bounds import CASE_NAME_MAX_CHARACTERS, cut_check, cut_failure, excess_of

# The case of each method's example; the others are `check_inputs[0]` and so on.
EXAMPLE = "example"
# What a gradient's name begins with, in front of `input.` or `parameter.` and the name of what it is of.
GRADIENT = "grad."

Said = TypeVar("Said", bound=Frozen)


class Trace(Frozen):
    """Trace this, in that way. `files` maps an uploaded file's name to its place among the child's descriptors."""

    kind: Literal["trace"] = "trace"
    spec: TraceSpec
    way: Way
    files: dict[str, int]
    device: DeviceName
    threads: int
    source_max_bytes: int


class Progress(Frozen):
    kind: Literal["progress"] = "progress"
    stage: Stage
    progress: float = Field(ge=0, le=1)


class File(Frozen):
    """The frame's body is one of the artifact's files."""

    kind: Literal["file"] = "file"
    name: Literal["archive", "printouts", "sources", "exported"]


class LayerDone(Frozen):
    """A layer of the check is done, of one method."""

    kind: Literal["layer-done"] = "layer-done"
    layer: Layer


class Case(Frozen):
    """Inputs that were tried, and are worth being tried again: of any sizes, whether the artifact is right on them or a
    counterexample. The frame's body is their bytes, one after the other."""

    kind: Literal["case"] = "case"
    name: str = Field(pattern=r"^(probe|size|counterexample): [\s\S]", max_length=CASE_NAME_MAX_CHARACTERS)
    method: str
    inputs: list[TensorSpec]


class Traced(Frozen):
    """What an artifact's manifest says, as the tracing child would have it; its files and cases came before.

    Its check can make the verdict worse than the verification does, and nothing better.
    """

    kind: Literal["traced"] = "traced"
    entrypoint: str | None
    form: Form
    contract: Contract  # as the examples show it
    claims: dict[str, MethodClaim]  # what the check found beyond them, by methods
    check: TraceCheck
    submodules: list[Submodule]
    parameters: list[TensorSpec]
    buffers: list[TensorSpec]
    attributes: ModuleAttributes
    constants: TensorConstants
    in_doubt: Parts  # that read the values of tensors, if no other code does
    missing_weights: list[str]
    unexpected_weights: list[str]
    versions: Versions


class TriedExport(Frozen):
    """What came of one attempt at torch.export, where the request asks for them: after the last word, one by one."""

    kind: Literal["tried-export"] = "tried-export"
    attempt: ExportAttempt


class Failed(Frozen):
    """A trace or an inference failed, and how."""

    kind: Literal["failed"] = "failed"
    failure: Failure

    @classmethod
    def of(cls, error: ServiceError) -> Self:
        """Of what is too long to be told, the beginning."""
        return cls(failure=cut_failure(error.failure()))


def _not_too_much(message: JsonValue) -> JsonValue:
    """Before it is looked at more closely: of a million mistakes the error would take gigabytes."""
    if excess := excess_of(message):
        raise ValueError(excess)
    return message


def _not_too_long(message: Said) -> Said:
    """What of it is kept and listed is within the bounds, which an honest child keeps to."""
    match message:
        case Traced() if cut_check(message.check) != message.check:
            raise ValueError("the check is over its bounds")
        case Failed() | Refused() if cut_failure(message.failure) != message.failure:
            raise ValueError("the failure is over its bounds")
    return message


FromTracer = Annotated[
    Progress | LayerDone | File | Case | Traced | TriedExport | Failed,
    Field(discriminator="kind"),
    BeforeValidator(_not_too_much),
    AfterValidator(_not_too_long),
]
from_tracer: TypeAdapter[Progress | LayerDone | File | Case | Traced | TriedExport | Failed] = TypeAdapter(FromTracer)


class Bound(Frozen):
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


class Answered(Frozen):
    """What the eager model returned, and how soon. The frame's body is the outputs' bytes. `drew`: a random number."""

    kind: Literal["answered"] = "answered"
    outputs: list[TensorSpec]
    returns: Structure
    drew: bool
    seconds: float = Field(ge=0, allow_inf_nan=False)


class Refused(Frozen):
    """The eager model takes no such inputs."""

    kind: Literal["refused"] = "refused"
    failure: Failure

    @classmethod
    def of(cls, error: ServiceError) -> Self:
        return cls(failure=cut_failure(error.failure()))


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


class Differentiated(Frozen):
    """The outputs of that call, and the gradients; the frame's body is their bytes. `without` are names of what could
    have a gradient, and has none."""

    kind: Literal["differentiated"] = "differentiated"
    tensors: list[TensorSpec]
    without: list[str]


ToReference = Annotated[Ask | Differentiate, Field(discriminator="kind")]
to_reference: TypeAdapter[Ask | Differentiate] = TypeAdapter(ToReference)

FromReference = Annotated[
    Bound | Answered | Differentiated | Refused | Failed,
    Field(discriminator="kind"),
    BeforeValidator(_not_too_much),
    AfterValidator(_not_too_long),
]
from_reference: TypeAdapter[Bound | Answered | Differentiated | Refused | Failed] = TypeAdapter(FromReference)


class Load(Frozen):
    """Load the archive in descriptor 0 and, where there is one, replay the golden cases in descriptor 1.

    Without a tolerance they only warm it up: a rejected artifact is known not to give them.
    """

    kind: Literal["load"] = "load"
    contract: Contract
    device: DeviceName
    served_form: ServedForm | None
    # Its parameters are to have gradients, which those of a module that was loaded in inference mode never have.
    gradients: bool
    tolerance: float | None
    threads: int


class Infer(Frozen):
    """The frame's body is the inputs' bytes, one after the other, in the contract's order.

    With `arguments`, which say how the inputs nest, it is asked for all that the artifact returns, be it as the
    contract says or not.
    """

    kind: Literal["infer"] = "infer"
    method: str
    inputs: list[TensorSpec]
    answer_max_bytes: int
    arguments: list[Argument] | None = None


class Ready(Frozen):
    kind: Literal["ready"] = "ready"
    resident_bytes: int = Field(ge=0)


class Inferred(Frozen):
    """The frame's body is the outputs' bytes, one after the other."""

    kind: Literal["inferred"] = "inferred"
    outputs: list[TensorSpec]
    returns: Structure | None = None


ToRunner = Annotated[Infer | Differentiate, Field(discriminator="kind")]
to_runner: TypeAdapter[Infer | Differentiate] = TypeAdapter(ToRunner)

FromRunner = Annotated[
    Ready | Inferred | Differentiated | Failed,
    Field(discriminator="kind"),
    BeforeValidator(_not_too_much),
    AfterValidator(_not_too_long),
]
from_runner: TypeAdapter[Ready | Inferred | Differentiated | Failed] = TypeAdapter(FromRunner)


class ExtraFile(Frozen):
    """One of the files that an archive carries beside the model; their bytes are the frame's body, in their order."""

    name: str = Field(max_length=100)
    byte_size: int = Field(ge=0)


class Pack(Frozen):
    """Put these into the archive in descriptor 0, in place of those that have their names."""

    kind: Literal["pack"] = "pack"
    files: list[ExtraFile]


class Unpack(Frozen):
    """Read those of these names that the archive in descriptor 0 has."""

    kind: Literal["unpack"] = "unpack"
    names: list[str]
    most_bytes: int  # of each


class Packed(Frozen):
    """The new archive: so many bytes of the old one, and behind them the frame's body."""

    kind: Literal["packed"] = "packed"
    cut: int = Field(ge=0)


class Unpacked(Frozen):
    kind: Literal["unpacked"] = "unpacked"
    files: list[ExtraFile]


ToPacker = Annotated[Pack | Unpack, Field(discriminator="kind")]
to_packer: TypeAdapter[Pack | Unpack] = TypeAdapter(ToPacker)

FromPacker = Annotated[
    Packed | Unpacked | Failed,
    Field(discriminator="kind"),
    BeforeValidator(_not_too_much),
    AfterValidator(_not_too_long),
]
from_packer: TypeAdapter[Packed | Unpacked | Failed] = TypeAdapter(FromPacker)
