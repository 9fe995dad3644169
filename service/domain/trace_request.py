"""A trace request: what was submitted, and its state: queued → running → succeeded, failed or cancelled."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from importlib.metadata import version
from typing import Self
from uuid import uuid4

import orjson
from pydantic import Field

from service.domain.api_key import TenantName
from service.domain.promotion import Promotion
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.differential.named_budgets import budget_class
from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import CHECK_VERSION
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import BudgetName, CheckBudget, DeviceName, TraceSpec, json_text, pool_of


class State(StrEnum):
    """The state of a trace request. The last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (State.SUCCEEDED, State.FAILED, State.CANCELLED)


class Stage(StrEnum):
    """The stage of a running trace request, in the order of work."""

    QUEUED = "queued"
    LOADING = "loading"
    TRACING = "tracing"
    CHECKING = "checking"
    PRINTING = "printing"
    EXPORTING = "exporting"
    VERIFYING = "verifying"
    STORING = "storing"
    DONE = "done"

    def is_after(self, other: "Stage") -> bool:
        stages = [*Stage]
        return stages.index(self) > stages.index(other)


class ModelVersionRef(Frozen):
    """The version that a trace request made."""

    name: str
    version: int


class DeviceArtifact(Frozen):
    """An artifact for a device, or for one bucket on it."""

    device: str
    digest: str
    bucket: dict[str, int] = Field({}, description="The sizes of its symbols if there are buckets; otherwise empty.")
    continues: str | None = Field(
        None, description="The artifact with whose check it went on, by its digest; null if it was made anew."
    )
    verdict_sentence: str | None = Field(
        None,
        description="Its verdict, and which parts of the check broke off or were cut. Null if an earlier release "
        "made it.",
    )


class TraceStatus(Frozen):
    """The state of a trace request. `attempt` counts claims; only the newest claim may end it."""

    id: str
    tenant: TenantName
    content: str = Field(description="The digest of everything that decides the outcome.")
    pool: str = "cpu"
    budget: BudgetName = Field(
        "normal", description="Its check's budget: how long it may take, and what it is timed by."
    )
    continues: str | None = Field(None, description="The artifact whose check it goes on with, by its digest.")
    is_idle: bool = Field(
        False, description="Whether nobody asked for it: a worker takes it while nothing else waits, and gives way."
    )
    state: State = State.QUEUED
    stage: Stage = Stage.QUEUED
    progress: float = 0.0
    attempt: int = 0
    verdict: Verdict | None = None
    environment: EnvironmentRef | None = None
    model_name: str = Field(description="The name under which its version is registered, if one is.")
    model: ModelVersionRef | None = None
    promotion: Promotion | None = None
    artifacts: list[DeviceArtifact] = []
    findings: list[Finding] = []
    outputs: BlobRef | None = Field(None, description="What the model returned, in mode eager.")
    failure: Failure | None = None
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    trace_context: dict[str, str] | None = Field(
        None, description="The trace of OpenTelemetry in which it was submitted, as the headers of W3C."
    )
    revision: str | None = Field(
        None, description="The revision of the tables that the release knew which stored it; null if none has."
    )


class TraceRequest(TraceStatus):
    """A trace request with what was submitted, which may be megabytes of inline data."""

    spec: TraceSpec
    files: dict[str, BlobRef] = {}

    @classmethod
    def new(
        cls,
        spec: TraceSpec,
        files: Mapping[str, BlobRef],
        *,
        torch_version: str,
        tenant: str,
        environment: EnvironmentRef | None = None,
        trace_context: dict[str, str] | None = None,
    ) -> Self:
        return cls(
            id=uuid4().hex,
            tenant=tenant,
            spec=spec,
            model_name=spec.model,
            pool=spec.pool,
            budget=budget_class(spec.check),
            files=dict(files),
            environment=environment,
            content=content_digest(spec, files, torch_version, environment),
            created_at=datetime.now(UTC),
            trace_context=trace_context,
        )

    def going_on(
        self, artifact: str, device: DeviceName, budget: CheckBudget, *, torch_version: str, is_idle: bool = False
    ) -> Self:
        """Return a new request, which goes on with the check of an artifact that this one made for the device.

        It has probes, also if this request has none: otherwise more time would find nothing more. Its version becomes
        the default version if it accepts all that the present one accepts, also if this request has `promote` always:
        meanwhile, somebody may have promoted another version.
        """
        probes = "auto" if self.spec.check.probes == "off" else self.spec.check.probes
        chosen = {"budget": budget.budget, "budget_s": budget.budget_s, "probes": probes}
        promote = "never" if self.spec.promote == "never" else "auto"
        check = self.spec.check.model_copy(update=chosen)
        spec = self.spec.model_copy(update={"check": check, "promote": promote, "force": False})
        return type(self)(
            id=uuid4().hex,
            tenant=self.tenant,
            spec=spec,
            model_name=spec.model,
            pool=pool_of([device]),
            budget=budget_class(spec.check),
            files=self.files,
            environment=self.environment,
            continues=artifact,
            is_idle=is_idle,
            content=content_digest(spec, self.files, torch_version, self.environment, artifact),
            created_at=datetime.now(UTC),
        )

    @cached_property
    def submitted_bytes(self) -> int:
        """The bytes of the spec as text and of the files. A request that goes on has the files of another one."""
        files = () if self.continues is not None else self.files.values()
        return self.stored.byte_size + sum(blob.byte_size for blob in files)

    @cached_property
    def stored(self) -> "StoredSubmission":
        """What was submitted, as it is stored."""
        return StoredSubmission.of(self.spec, self.files)


@dataclass(frozen=True, slots=True)
class StoredSubmission:
    """A spec without its source, the source, and the uploaded files, each as JSON; and the bytes of the first two."""

    spec: str
    source: str
    files: str
    byte_size: int

    @classmethod
    def of(cls, spec: TraceSpec, files: Mapping[str, BlobRef]) -> Self:
        rest, source = json_text(spec, exclude={"source"}), json_text(spec.source)
        named = orjson.dumps({name: blob.model_dump() for name, blob in files.items()})
        return cls(rest.decode(), source.decode(), named.decode(), byte_size=len(rest) + len(source))


def content_digest(
    spec: TraceSpec,
    files: Mapping[str, BlobRef],
    torch_version: str,
    environment: EnvironmentRef | None = None,
    continues: str | None = None,
) -> str:
    """Return the digest of everything that decides the outcome, which `force` does not.

    A model may read its dicts in the order in which they are given, so another order is other content.
    """
    content = {
        "spec": orjson.Fragment(json_text(spec, exclude={"force"})),
        "files": {name: files[name].digest for name in sorted(files)},
        "torch": torch_version,
        "environment": None if environment is None else environment.digest,
        "tracehouse": version("tracehouse"),
        "check": CHECK_VERSION,
        "continues": continues,
    }
    return "sha256:" + hashlib.sha256(orjson.dumps(content)).hexdigest()
