"""Every message between a parent and its child: those of a tracing child first, then those of a runner.

A message is the JSON header of a frame; bytes travel as the frame's body. Parents parse what a child says into
these types and trust nothing in it beyond that.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, TypeAdapter

from service.domain.artifact import Submodule, Versions
from service.domain.contract import Contract
from service.domain.errors import Failure, ServiceError
from service.domain.frozen import Frozen
from service.domain.tensor import TensorSpec
from service.domain.trace_check import TraceCheck
from service.domain.trace_request import Stage, TraceSpec
from service.sandbox.bounds import MESSAGE_DEPTH_MAX, cut_check, cut_failure, nests_too_deeply


class Trace(Frozen):
    """Trace this. `files` maps an uploaded file's name to its place among the child's descriptors."""

    kind: Literal["trace"] = "trace"
    spec: TraceSpec
    files: dict[str, int]
    threads: int
    source_max_bytes: int


class Progress(Frozen):
    kind: Literal["progress"] = "progress"
    stage: Stage
    progress: float = Field(ge=0, le=1)


class File(Frozen):
    """The frame's body is one of the artifact's files."""

    kind: Literal["file"] = "file"
    name: Literal["archive", "printouts", "golden"]


class Traced(Frozen):
    """All that an artifact's manifest says, but for its files' digests; its files came before."""

    kind: Literal["traced"] = "traced"
    entrypoint: str
    contract: Contract
    check: TraceCheck
    submodules: list[Submodule]
    parameters: list[TensorSpec]
    buffers: list[TensorSpec]
    missing_weights: list[str]
    unexpected_weights: list[str]
    versions: Versions


class Failed(Frozen):
    """A trace or an inference failed, and how."""

    kind: Literal["failed"] = "failed"
    failure: Failure

    @classmethod
    def of(cls, error: ServiceError) -> Self:
        """Of what is too long to be told, the beginning."""
        return cls(failure=cut_failure(error.failure()))


def _not_too_deep(message: JsonValue) -> JsonValue:
    if nests_too_deeply(message):
        raise ValueError(f"it nests deeper than {MESSAGE_DEPTH_MAX} levels")
    return message


def _not_too_long(message: Progress | File | Traced | Failed) -> Progress | File | Traced | Failed:
    """What of it is kept and listed is within the bounds, which an honest child keeps to."""
    match message:
        case Traced() if cut_check(message.check) != message.check:
            raise ValueError("the check is over its bounds")
        case Failed() if cut_failure(message.failure) != message.failure:
            raise ValueError("the failure is over its bounds")
    return message


FromTracer = Annotated[
    Progress | File | Traced | Failed,
    Field(discriminator="kind"),
    BeforeValidator(_not_too_deep),
    AfterValidator(_not_too_long),
]
from_tracer: TypeAdapter[Progress | File | Traced | Failed] = TypeAdapter(FromTracer)


class Load(Frozen):
    """Load the archive in descriptor 0 and replay the golden cases in descriptor 1.

    Without a tolerance they only warm it up: a rejected artifact is known not to give them.
    """

    kind: Literal["load"] = "load"
    contract: Contract
    freeze: bool
    tolerance: float | None
    threads: int


class Infer(Frozen):
    """The frame's body is the inputs' bytes, one after the other, in the contract's order."""

    kind: Literal["infer"] = "infer"
    method: str
    inputs: list[TensorSpec]
    answer_max_bytes: int


class Ready(Frozen):
    kind: Literal["ready"] = "ready"
    resident_bytes: int = Field(ge=0)


class Inferred(Frozen):
    """The frame's body is the outputs' bytes, one after the other."""

    kind: Literal["inferred"] = "inferred"
    outputs: list[TensorSpec]


FromRunner = Annotated[Ready | Inferred | Failed, Field(discriminator="kind")]
from_runner: TypeAdapter[Ready | Inferred | Failed] = TypeAdapter(FromRunner)
