"""Messages between a parent and the tracer, which traces a submission and checks the trace."""

from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter

from service.domain.trace_request import Stage
from service.protocol.bounds import cut_check
from service.protocol.messages import FailureReply, not_too_large
from tracehouse.artifact.exportability import ExportAttempt
from tracehouse.artifact.manifest import Form, ModuleAttributes, Submodule, TensorConstants, Versions
from tracehouse.contract.contract import OTHER_RANKS_MAX, Contract, MethodClaim, RankClaim
from tracehouse.contract.devices import FixedDevices
from tracehouse.differential.offered_cases import CASE_NAME_MAX_CHARACTERS
from tracehouse.findings.trace_check import Layer, TraceCheck
from tracehouse.frozen import Frozen
from tracehouse.spec.conversion import Conversion, ScriptTargets
from tracehouse.spec.trace_spec import DeviceName, TraceSpec, json_text
from tracehouse.step_times import STEPS_MAX, StepTime
from tracehouse.tensors.tensor import TensorSpec


class Trace(Frozen):
    """Trace the request with this conversion.

    `files` maps an uploaded file's name to its place among the child's descriptors. A named budget of the check is at
    most `budget_most_s` seconds. `archive` is the place of an archive that was made of this submission before: then
    that one is checked, and not sent again. `archive_file` is the place of an empty file to write the archive into.
    """

    kind: Literal["trace"] = "trace"
    spec: TraceSpec
    conversion: Conversion
    files: dict[str, int]
    device: DeviceName
    threads: int
    source_max_bytes: int
    budget_most_s: float
    archive: int | None = None
    archive_file: int | None = None

    def header(self) -> dict[str, Any]:
        """Return the message as a frame's header. Of a spec, which may have megabytes of data, it has the text."""
        return {**self.model_dump(mode="json", exclude={"spec"}), "spec": orjson.Fragment(json_text(self.spec))}


class Progress(Frozen):
    kind: Literal["progress"] = "progress"
    stage: Stage
    progress: float = Field(ge=0, le=1)


class File(Frozen):
    """One of the artifact's files: the frame's body or, `in_file`, what the child wrote into its `archive_file`."""

    kind: Literal["file"] = "file"
    name: Literal["archive", "printouts", "sources", "exported"]
    in_file: bool = False


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


def _within_bounds(check: TraceCheck) -> TraceCheck:
    """Raise ValueError unless the check is as short as an honest child makes it."""
    if cut_check(check) != check:
        raise ValueError("the check is over its bounds")
    return check


class Traced(Frozen):
    """The artifact's manifest as the tracing child reports it, after its files and cases.

    Its check can make the verdict worse than the verification does, never better.
    """

    kind: Literal["traced"] = "traced"
    entrypoint: str | None
    form: Form
    contract: Contract  # as the examples show it
    claims: dict[str, MethodClaim]  # what the check found beyond them, by methods
    other_ranks: dict[str, Annotated[list[RankClaim], Field(max_length=OTHER_RANKS_MAX)]] = {}  # by methods
    check: Annotated[TraceCheck, AfterValidator(_within_bounds)]
    submodules: list[Submodule]
    parameters: list[TensorSpec]
    buffers: list[TensorSpec]
    attributes: ModuleAttributes
    constants: TensorConstants
    devices: dict[str, FixedDevices]  # by methods, read off the graphs
    in_doubt: ScriptTargets  # that read the values of tensors, if no other code does
    missing_weights: list[str]
    unexpected_weights: list[str]
    versions: Versions
    steps: list[StepTime] = Field([], max_length=STEPS_MAX)  # how long it took for what, which is only logged


class ExportDone(Frozen):
    """The result of one attempt at torch.export. If the request asks for them, they follow `Traced` one by one."""

    kind: Literal["export-done"] = "export-done"
    attempt: ExportAttempt


FromTracer = Annotated[
    Progress | LayerDone | File | Case | Traced | ExportDone | FailureReply,
    Field(discriminator="kind"),
    BeforeValidator(not_too_large),
]
from_tracer: TypeAdapter[Progress | LayerDone | File | Case | Traced | ExportDone | FailureReply] = TypeAdapter(
    FromTracer
)
