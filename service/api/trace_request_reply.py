"""Trace request replies: what a caller sees of a trace request."""

from datetime import datetime
from typing import Self

from pydantic import Field

from service.api.problems import Problem, problem_of
from service.domain.promotion import Promotion
from service.domain.trace_request import DeviceArtifact, ModelVersionRef, Stage, State, TraceStatus
from service.engine.queue import Engine
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen


class TraceRequestLinks(Frozen):
    """The paths of what belongs to a trace request; null if it does not exist, or not yet."""

    self: str
    events: str
    log: str
    source: str
    cancel: str | None
    artifact: str | None = Field(description="The artifact for the first of its devices.")
    infer: str | None
    outputs: str | None = Field(description="What the model returned, in mode eager.")


_NOT_STORED = {"waiting", "position", "expected_start", "problem", "links"}


class TraceRequestSummary(Frozen):
    """A trace request in a list: everything but its findings."""

    id: str
    state: State = Field(
        description="`succeeded`: the model was traced, and the verdict says how well; in mode eager, it ran."
    )
    stage: Stage
    progress: float = Field(description="From 0 to 1.")
    pool: str = Field(description="The pool of workers that takes it.")
    waiting: str | None = Field(
        description="Why it cannot begin, such as `no worker in pool gpu` or, during an update, `all workers in pool "
        "cpu are of an older release`; null if it waits for its turn, or has begun."
    )
    position: int | None = Field(
        description="Its place among the waiting requests of its pool, in the order in which they begin, from 1; the "
        "tenants take turns. It changes as others come, end and are cancelled. Null if it does not wait for its turn."
    )
    expected_start: datetime | None = Field(
        description="When it is expected to begin, from how long requests of each `check.budget` took lately, and from "
        "what runs and waits before it. It is no promise: how long a trace takes is known when it has ended. Null if "
        "it does not wait for its turn, or if fewer than three of a budget that counts have ended."
    )
    continues: str | None = Field(
        description="The artifact whose check it goes on with, by its digest; null if it traces."
    )
    is_idle: bool = Field(
        description="Whether nobody asked for it: a worker takes it while nothing else waits, and gives way."
    )
    attempt: int = Field(
        description="How often it has begun; 0 while it waits for the first time. A request of a tenant that runs "
        "several is queued again, and later begins anew, if a tenant that runs nothing needs the slot."
    )
    verdict: Verdict | None = Field(
        description="The worst verdict of its devices; null in mode eager, which traces nothing."
    )
    environment: EnvironmentRef | None = Field(
        description="The environment that it names, as it was when the request came; null if it names none."
    )
    model_name: str = Field(description="The name under which its version is registered, if one is.")
    model: ModelVersionRef | None = Field(description="Null if no version was registered.")
    promotion: Promotion | None = Field(
        description="Whether the version became the model's default version when it was registered; null if none was. "
        "`GET /models/{name}` has the present default version."
    )
    artifacts: list[DeviceArtifact]
    problem: Problem | None = Field(description="Why it failed.")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    links: TraceRequestLinks

    @classmethod
    def of(cls, request: TraceStatus, engine: Engine) -> Self:
        fields = {name: getattr(request, name) for name in cls.model_fields.keys() - _NOT_STORED}
        path = f"/trace/{request.id}"
        problem = problem_of(request.failure, instance=path) if request.failure else None
        return cls(
            **fields,
            waiting=engine.waiting(request),
            position=engine.position(request),
            expected_start=engine.expected_start(request),
            problem=problem,
            links=_links(request, path),
        )


class TraceRequestReply(TraceRequestSummary):
    """A trace request as its submitter sees it."""

    findings: list[Finding]


def _links(request: TraceStatus, path: str) -> TraceRequestLinks:
    artifact = f"/artifacts/{request.artifacts[0].digest}" if request.artifacts else None
    infer = f"/infer/{request.model.name}:{request.model.version}" if request.model else None
    return TraceRequestLinks(
        self=path,
        events=f"{path}/events",
        log=f"{path}/log",
        source=f"{path}/source",
        cancel=None if request.state.is_final else f"{path}/cancel",
        artifact=artifact,
        infer=infer,
        outputs=f"{path}/outputs" if request.outputs else None,
    )
