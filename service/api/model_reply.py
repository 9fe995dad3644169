"""Model replies: what a caller sees of a model, its versions and its aliases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar

from pydantic import Field

from service.api.context import AppContext
from service.domain.bitwise import BitwiseRows
from service.domain.form_race import FormRace
from service.domain.live_check import LiveCheck
from service.domain.model import Alias, Bucket, Model, ModelVersion, MovedBack
from service.domain.promotion import Promotion
from service.domain.serving_options import ServingOptions
from service.domain.thread_count import ThreadCount
from service.serving.bitwise import Bitwise
from service.serving.forms import Forms
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen


class VersionLinks(Frozen):
    """The paths of what belongs to a version."""

    trace_request: str
    artifact: str
    infer: str


class ThreadsReply(Frozen):
    """With how many threads a process of an artifact computes."""

    threads: int
    why: str
    measured: ThreadCount | None = Field(
        description="What calls on this machine showed; null if the number was set, or is not measured yet."
    )


class ReplicasReply(Frozen):
    """How many processes are to answer for an artifact."""

    replicas: int
    why: str


Found = TypeVar("Found")


@dataclass(frozen=True)
class _Known:
    """What is known of versions beside their rows."""

    threads: Callable[[str, ServingOptions], int] = lambda *_: 0
    explain_threads: Callable[[str, ServingOptions, int], tuple[str, ThreadCount | None]] | None = None
    explain_replicas: Callable[[str, ServingOptions, int], tuple[int, str]] | None = None
    running: Callable[[str, int], int] = lambda *_: 0  # of a digest, with so many threads
    why_not_kept: Callable[[str, int], str | None] = lambda *_: None
    forms: Forms | None = None
    bitwise: Bitwise | None = None
    live_checks: Mapping[tuple[str, int], LiveCheck] = field(default_factory=dict)

    def raced(self, version: ModelVersion, serving: ServingOptions) -> dict[str, FormRace]:
        return {} if self.forms is None else self._found(version, serving, self.forms.find)

    def rows(self, version: ModelVersion, serving: ServingOptions) -> dict[str, BitwiseRows]:
        return {} if self.bitwise is None else self._found(version, serving, self.bitwise.find)

    def running_of(self, version: ModelVersion, serving: ServingOptions) -> dict[str, int]:
        return self._found(version, serving, self.running)

    def not_kept(self, version: ModelVersion, serving: ServingOptions) -> dict[str, str]:
        return self._found(version, serving, self.why_not_kept)

    def threads_of(self, version: ModelVersion, serving: ServingOptions) -> dict[str, ThreadsReply]:
        if (explain := self.explain_threads) is None:
            return {}

        def describe(digest: str, threads: int) -> ThreadsReply:
            why, measured = explain(digest, serving, threads)
            return ThreadsReply(threads=threads, why=why, measured=measured)

        return self._found(version, serving, describe)

    def replicas_of(self, version: ModelVersion, serving: ServingOptions) -> dict[str, ReplicasReply]:
        if (explain := self.explain_replicas) is None:
            return {}

        def describe(digest: str, threads: int) -> ReplicasReply:
            replicas, why = explain(digest, serving, threads)
            return ReplicasReply(replicas=replicas, why=why)

        return self._found(version, serving, describe)

    def _found(
        self, version: ModelVersion, serving: ServingOptions, find: Callable[[str, int], Found | None]
    ) -> dict[str, Found]:
        """Return what is found of the version's artifacts with the threads that compute, by digest."""
        digests = dict.fromkeys([*version.artifacts.values(), *(bucket.digest for bucket in version.buckets)])
        each = {digest: find(digest, self.threads(digest, serving)) for digest in digests}
        return {digest: found for digest, found in each.items() if found is not None}


_NOTHING = _Known()


class VersionReply(Frozen):
    """One version. Its number is never used again, and nothing in it changes but `withdrawn`, `running`,
    `not_kept_ready`, `threads`, `replicas`, `forms`, `bitwise` and `live_check`."""

    version: int
    verdict: Verdict
    artifacts: dict[str, str] = Field(
        description="The artifact's digest by device; with buckets, the digest of the first."
    )
    buckets: list[Bucket] = Field(
        description="If there is one artifact for each of several sizes, these. The one that takes a request's sizes "
        "answers it."
    )
    withdrawn: dict[str, str] = Field(
        description="Artifacts that `/infer` refuses, because a later check found a wrong answer that they promise to "
        "be right: by their digest, the trace request of that check."
    )
    promotion: Promotion | None = Field(
        description="Whether it became the default version when it was registered; null if an earlier release did that."
    )
    running: dict[str, int] = Field(
        description="By digest, how many processes answer for the artifact, of those of the service's process that was "
        "asked. None may be there because nobody asks; fewer than `replicas` says, because there is no memory."
    )
    not_kept_ready: dict[str, str] = Field(
        description="By digest, why no process of the artifact is kept ready, though the model is pinned; in the "
        "service's process that was asked."
    )
    threads: dict[str, ThreadsReply] = Field(
        description="By digest, with how many threads a process of the artifact computes now, in the service's process "
        "that was asked, and why."
    )
    replicas: dict[str, ReplicasReply] = Field(
        description="By digest, how many processes are to answer for the artifact now, in the service's process that "
        "was asked, and why. `running` says how many do."
    )
    forms: dict[str, FormRace] = Field(
        description="With `SERVED_FORMS=raced`, by digest: which form of the artifact answers on this machine, by how "
        "much it is faster than the form as saved, and why other forms may not answer. An artifact that is not here "
        "answers as saved; it has not been raced yet."
    )
    bitwise: dict[str, BitwiseRows] = Field(
        description="By digest, whether answers have the same bytes whoever shares their calls, as calls on this "
        "machine showed. It is found out at the first request after the model was told to be `bitwise`."
    )
    live_check: LiveCheck | None = Field(
        description="With `LIVE_CHECK_SHARE`, what came of the answers that were compared with those of the model in "
        "Python; null if none was drawn for that yet."
    )
    created_at: datetime
    links: VersionLinks

    @classmethod
    def of(cls, model: Model, version: ModelVersion, about: _Known = _NOTHING) -> "VersionReply":
        links = VersionLinks(
            trace_request=f"/trace/{version.trace_request}",
            artifact=f"/artifacts/{next(iter(version.artifacts.values()))}",
            infer=f"/infer/{model.name}:{version.version}",
        )
        fields = version.model_dump(exclude={"trace_request"})
        return cls(
            **fields,
            links=links,
            running=about.running_of(version, model.serving),
            not_kept_ready=about.not_kept(version, model.serving),
            threads=about.threads_of(version, model.serving),
            replicas=about.replicas_of(version, model.serving),
            forms=about.raced(version, model.serving),
            bitwise=about.rows(version, model.serving),
            live_check=about.live_checks.get((model.name, version.version)),
        )


class AliasReply(Frozen):
    """An alias. Send its `etag` as `If-Match` to move it."""

    alias: str
    version: int
    etag: str
    move_back_after: int | None = Field(
        description="After so many answers of this version that are not those of the model in Python, counted since "
        "the alias was set, it is moved to `move_back_to`; null if it stays."
    )
    move_back_to: int | None
    moved_back: MovedBack | None = Field(description="Present if the live check moved it back, and nobody since then.")

    @classmethod
    def of(cls, alias: Alias) -> "AliasReply":
        return cls(etag=alias.etag, **alias.model_dump(exclude={"revision"}))


class ModelReply(Frozen):
    """A name, its versions, and the aliases that point at them."""

    name: str
    default_version: int | None = Field(
        description="The version that answers `/infer/{name}`, where neither a version nor an alias is named; null if "
        "none was promoted."
    )
    move_back_after: int | None = Field(
        description="After so many answers of the default version that are not those of the model in Python, counted "
        "since it was promoted, `move_back_to` is the default version again; null if it stays."
    )
    move_back_to: int | None
    moved_back: MovedBack | None = Field(
        description="Present if the live check moved the default version back, and nobody set it since then."
    )
    bitwise: bool = Field(
        description="Whether the bytes of an answer may depend on nobody who asks at the same time. Then requests "
        "share a call only where `bitwise` of the version says that it changes no byte, and the form as saved answers."
    )
    idle_s: float | None = Field(
        description="A process of the model that nobody has asked for so many seconds is ended; the next request "
        "starts another. 0: none is ended for that. null: `RUNNER_IDLE_S` of the service decides."
    )
    pinned: bool = Field(
        description="Whether the processes of the default version are kept ready: from the start of the service on, "
        "and anew when one was lost. As far as the tenant's share of `POOL_MEMORY_MIB` goes, none is ended for others."
    )
    threads: int | None = Field(
        description="How many threads a process of the model computes with, at most one for each core of the machine. "
        "null: `RUNNER_THREADS` of the service decides, and `threads` of a version says how many that are."
    )
    replicas: int | None = Field(
        description="How many processes of the model answer, at most one for each core of the machine. The first "
        "starts with the first request, and the others follow as long as there is memory. null: `RUNNER_REPLICAS` of "
        "the service decides, and `replicas` of a version says how many that are."
    )
    versions: list[VersionReply]
    aliases: list[AliasReply]

    @classmethod
    def of(cls, model: Model, about: _Known = _NOTHING) -> "ModelReply":
        return cls(
            name=model.name,
            default_version=model.default_version,
            move_back_after=model.move_back_after,
            move_back_to=model.move_back_to,
            moved_back=model.moved_back,
            **model.serving.model_dump(),
            versions=[VersionReply.of(model, version, about) for version in model.versions],
            aliases=[AliasReply.of(alias) for alias in model.aliases],
        )


def describe_model(context: AppContext, tenant: str, model: Model) -> ModelReply:
    """Return what is known of a model."""
    [reply] = describe_models(context, tenant, [model])
    return reply


def describe_models(context: AppContext, tenant: str, models: Sequence[Model]) -> list[ModelReply]:
    """Return what is known of these models."""
    live_checks = context.store.live_checks.find(tenant, [model.name for model in models])
    inference = context.inference
    known = _Known(
        threads=partial(inference.threads, tenant),
        explain_threads=inference.explain_threads,
        explain_replicas=partial(inference.explain_replicas, tenant),
        running=partial(inference.running, tenant),
        why_not_kept=partial(inference.why_not_kept, tenant),
        forms=context.forms,
        bitwise=inference.bitwise,
        live_checks=live_checks,
    )
    return [ModelReply.of(model, known) for model in models]
