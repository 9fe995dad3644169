"""Every message between a parent and its child.

A message is the JSON header of a frame; bytes travel as the frame's body. Parents parse what a child says into
these types and trust nothing in it beyond that.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from service.domain.artifact import Submodule, Versions
from service.domain.contract import Contract
from service.domain.errors import Failure
from service.domain.frozen import Frozen
from service.domain.tensor import TensorSpec
from service.domain.trace_check import TraceCheck
from service.domain.trace_request import Stage, TraceSpec

# --- to a tracing child --------------------------------------------------------------------------------------


class Trace(Frozen):
    """Trace this. `files` maps an uploaded file's name to its place among the child's descriptors."""

    kind: Literal["trace"] = "trace"
    spec: TraceSpec
    files: dict[str, int]
    threads: int
    source_max_bytes: int


# --- from a tracing child ------------------------------------------------------------------------------------


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


FromTracer = Annotated[Progress | File | Traced | Failed, Field(discriminator="kind")]
from_tracer: TypeAdapter[Progress | File | Traced | Failed] = TypeAdapter(FromTracer)


# --- to a runner ---------------------------------------------------------------------------------------------


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


# --- from a runner -------------------------------------------------------------------------------------------


class Ready(Frozen):
    kind: Literal["ready"] = "ready"
    resident_bytes: int = Field(ge=0)


class Inferred(Frozen):
    """The frame's body is the outputs' bytes, one after the other."""

    kind: Literal["inferred"] = "inferred"
    outputs: list[TensorSpec]


FromRunner = Annotated[Ready | Inferred | Failed, Field(discriminator="kind")]
from_runner: TypeAdapter[Ready | Inferred | Failed] = TypeAdapter(FromRunner)
