"""A trace request: what was submitted, and its state: queued → running → succeeded, failed or cancelled."""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal, Self
from uuid import uuid4

import orjson
from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from service.domain.api_key import TenantName
from service.domain.blob import BlobRef
from service.domain.errors import Failure
from service.domain.example_inputs import Arguments, CheckInput, KeywordArguments, MethodInputs
from service.domain.frozen import Frozen
from service.domain.model import ModelName
from service.domain.trace_check import Finding, Verdict

# Each is open in the tracing child: the kernel hands over no more than 253 descriptors at once.
FILES_MAX = 50

_PYTHON_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ENTRYPOINT = re.compile(rf"{_PYTHON_NAME}(\.{_PYTHON_NAME})*:{_PYTHON_NAME}(\.{_PYTHON_NAME})*")
_SOURCE_PATH = re.compile(rf"({_PYTHON_NAME}/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,199}")


def _entrypoint(value: str) -> str:
    if not _ENTRYPOINT.fullmatch(value):
        raise PydanticCustomError("entrypoint", "write it as module:name, for instance net:Net")
    return value


def _source_path(value: str) -> str:
    if len(value) > 200 or not _SOURCE_PATH.fullmatch(value):
        raise PydanticCustomError("source_path", "a source file's name is a relative path such as net.py or pkg/net.py")
    return value


def _file_name(value: str) -> str:
    if not _FILE_NAME.fullmatch(value):
        raise PydanticCustomError(
            "file_name", "a file's name is a plain name without slashes, such as weights.safetensors"
        )
    return value


def _method_name(value: str) -> str:
    if not re.fullmatch(_PYTHON_NAME, value):
        raise PydanticCustomError("method_name", "a method's name is a Python name")
    return value


FileName = Annotated[str, AfterValidator(_file_name)]
SourcePath = Annotated[str, AfterValidator(_source_path)]
Entrypoint = Annotated[str, AfterValidator(_entrypoint)]
MethodName = Annotated[str, AfterValidator(_method_name)]


class Init(Frozen):
    """The arguments that a class or a factory is called with."""

    args: list[JsonValue] = []
    kwargs: dict[str, JsonValue] = {}


class ModelSource(Frozen):
    """The submitted Python text: inline files, or one uploaded `.py` or `.zip`."""

    files: dict[SourcePath, str] | None = Field(None, min_length=1, max_length=1000)
    file: FileName | None = Field(None, description="An uploaded `.py` or `.zip`.")
    entrypoint: Entrypoint = Field(
        description="`module:name` of an nn.Module class, a factory, an instance or a function."
    )
    init: Init = Init()

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.files is None) == (self.file is None):
            raise PydanticCustomError("source", "give either files or file")
        return self


class Weights(Frozen):
    """An uploaded state dict, `.safetensors`, `.pt` or `.pth`; `strict` as in `load_state_dict`."""

    file: FileName
    strict: bool = True


class CheckOptions(Frozen):
    """How the trace is checked. Our own comparison with the eager model always runs."""

    check_trace: bool = Field(True, description="Run torch's own check as well, and report what it says.")
    check_inputs: list[CheckInput] = Field([], max_length=100, description="Further calls to compare on.")
    check_tolerance: float = Field(1e-5, gt=0, le=1, description="Relative tolerance, as torch.jit.trace takes it.")
    probes: Literal["auto", "off"] = Field("auto", description="Vary the examples' values, and compare on those too.")
    gradients: Literal[False] = Field(False, description="Backward passes are not compared.")


class TraceOptions(Frozen):
    """Handed to torch.jit.trace, and how the artifact is served."""

    strict: bool = Field(True, description="As torch.jit.trace takes it: false lets dicts and lists be returned.")
    force_outplace: bool = Field(False, description="Record operators in place as those that are not.")
    freeze: bool = Field(False, description="Serve the form that torch.jit.freeze makes; the archive stays as traced.")
    seed: int = Field(0, ge=0, lt=2**63, description="For random weights, and whatever else the source draws.")


class TraceSpec(Frozen):
    """What a person submits."""

    model_config = ConfigDict(title="Trace request")

    model: ModelName = Field(description="The name under which the artifact is registered.")
    source: ModelSource
    weights: Weights | None = None
    mode: Literal["trace"] = "trace"
    training: Literal[False] = Field(False, description="The model is traced in eval mode.")
    methods: dict[MethodName, MethodInputs] = Field({}, max_length=32)
    example_inputs: Arguments = Field([], description="Stands for methods.forward.example_inputs.")
    example_kwarg_inputs: KeywordArguments = Field({}, description="Stands for methods.forward.example_kwarg_inputs.")
    check: CheckOptions = CheckOptions()
    options: TraceOptions = TraceOptions()
    devices: list[Literal["cpu"]] = Field(["cpu"], min_length=1, max_length=1)
    accept_unsound: bool = Field(False, description="Register and serve the artifact even if its verdict is rejected.")
    force: bool = Field(False, description="Trace again, although the same content was traced before.")

    @model_validator(mode="after")
    def _inputs_once(self) -> Self:
        at_the_top = bool(self.example_inputs or self.example_kwarg_inputs)
        if at_the_top and "forward" in self.methods:
            raise PydanticCustomError("inputs_twice", "forward has inputs both at the top and in methods")
        if not self.calls:
            raise PydanticCustomError("no_inputs", "give example_inputs, example_kwarg_inputs or methods")
        unknown = {check.method for check in self.check.check_inputs} - set(self.calls)
        if unknown:
            raise PydanticCustomError(
                "unknown_method",
                "check_inputs name {unknown}, which is not traced",
                {"unknown": min(unknown)},
            )
        return self

    @property
    def calls(self) -> dict[str, MethodInputs]:
        """Which methods are traced, on what: `methods`, with the inputs at the top as `forward`."""
        if not (self.example_inputs or self.example_kwarg_inputs):
            return self.methods
        forward = MethodInputs(example_inputs=self.example_inputs, example_kwarg_inputs=self.example_kwarg_inputs)
        return {"forward": forward, **self.methods}


class State(StrEnum):
    """How far a trace request is: the last three are ends, and are never left."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (State.SUCCEEDED, State.FAILED, State.CANCELLED)


class Stage(StrEnum):
    """Where a running trace request is; the order is the order of work."""

    QUEUED = "queued"
    LOADING = "loading"
    TRACING = "tracing"
    CHECKING = "checking"
    PRINTING = "printing"
    VERIFYING = "verifying"
    STORING = "storing"
    DONE = "done"


class ModelVersionRef(Frozen):
    """The version that a trace request made, and its model."""

    name: str
    version: int


class DeviceArtifact(Frozen):
    """The artifact that was traced on a device."""

    device: str
    digest: str


class TraceStatus(Frozen):
    """How far a trace request has come. `attempt` counts claims; only the newest claim may end it."""

    id: str
    tenant: TenantName
    content: str = Field(description="Digest of everything that decides the outcome.")
    pool: str = "cpu"
    state: State = State.QUEUED
    stage: Stage = Stage.QUEUED
    progress: float = 0.0
    attempt: int = 0
    verdict: Verdict | None = None
    model: ModelVersionRef | None = None
    artifacts: list[DeviceArtifact] = []
    findings: list[Finding] = []
    failure: Failure | None = None
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None


class TraceRequest(TraceStatus):
    """One submission: what was submitted, which may be megabytes of inline data, and how far it has come."""

    spec: TraceSpec
    files: dict[str, BlobRef] = {}

    @classmethod
    def submitted(cls, spec: TraceSpec, files: Mapping[str, BlobRef], *, torch_version: str, tenant: str) -> Self:
        return cls(
            id=uuid4().hex,
            tenant=tenant,
            spec=spec,
            files=dict(files),
            content=content_digest(spec, files, torch_version),
            created_at=datetime.now(UTC),
        )

    @cached_property
    def submitted_bytes(self) -> int:
        """The spec as text, and the files."""
        return len(self.spec.model_dump_json().encode()) + sum(blob.byte_size for blob in self.files.values())


def content_digest(spec: TraceSpec, files: Mapping[str, BlobRef], torch_version: str) -> str:
    """The same content traced by the same torch has the same outcome: `force` is not part of it."""
    content = {
        "spec": spec.model_dump(mode="json", exclude={"force"}),
        "files": {name: blob.digest for name, blob in files.items()},
        "torch": torch_version,
    }
    return "sha256:" + hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
