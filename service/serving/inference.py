"""The data plane: which artifact answers a request, whether its contract takes the inputs, and the pool's answer.

Every transport asks it in two steps: `find`, because parsing tensors needs the contract, and then `answer` with named
tensors.
"""

import asyncio
import os
import secrets
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from time import time_ns
from typing import NamedTuple

from safetensors import SafetensorError

from service import telemetry
from service.domain.bitwise import RowTrial
from service.domain.errors import ArtifactNotFound, ArtifactWithdrawn
from service.domain.live_check import LiveCall
from service.domain.model import ModelRef, ModelVersion
from service.domain.serving_options import ServingOptions
from service.domain.thread_count import ThreadCount
from service.serving.bitwise import ALONE, Bitwise, Sharing
from service.serving.live_check import LiveChecker
from service.serving.lookup import Lookup
from service.serving.pending_call import Answer, CallLeft, PendingCall
from service.serving.picture_input import image_readings
from service.serving.pool import Pool, PoolFigures
from service.serving.row_trial import try_rows
from service.serving.runner import RunnerState
from service.serving.served_method import Accepted, ServedMethod
from service.serving.statistics import Statistics, Stopwatch, VersionStatistics
from service.storage.database import Store
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.contract import called_sizes
from tracehouse.contract.buckets import BucketContract
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_bytes import is_bounded, largest_inputs_bytes
from tracehouse.contract.structure import Structure, complex_tensors_of, has_only_real_tensors
from tracehouse.differential import golden
from tracehouse.errors import ContractViolation, InferenceTimeout, ServiceError
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.image_reading import ImageReading
from tracehouse.tensors.tensor import Tensor

UNSOUND = "the check rejected this version: its answers are not known to be right"
NOT_CALLED = (
    "The contract accepts these inputs, but this service answers only what it called itself (SERVED_SIZES=called). "
    "Send the example's datatypes, and sizes that stand in the contract's `called`, or ask the operator."
)
UNTRIED = "these sizes were never tried: the answer is not known to be right"

# A client in JavaScript reads no larger integer exactly.
_SEED_BITS = 53
# Models that were asked last, each with its contracts.
_MODELS_MAX = 512
# For so long, an alias that another process moves may still be what it was.
_MODEL_AGE_S = 1.0
# A manifest with its findings takes some hundred kilobytes as objects.
_ARTIFACTS_MAX = 32
# Contracts stay longer: a request to a model with buckets looks at the contracts of all of them.
_CONTRACTS_MAX = 512
# Comparing the values of more than this with their range takes about a millisecond.
_CHECKED_HERE_MAX_BYTES = MIB


@dataclass(frozen=True, slots=True)
class ServedArtifact:
    """An artifact that may answer: the version's only one for a device, or that of one bucket.

    Its archive has `archive_bytes`. `largest_inputs_bytes` is the size of the inputs of the largest call that its
    contract takes; None if that takes sizes that were never called.
    """

    digest: str
    sizes: dict[str, int]
    contract: Contract
    largest_inputs_bytes: int | None
    archive_bytes: int


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The version that a model reference names, and its artifacts for one device."""

    tenant: str
    name: str
    version: ModelVersion
    artifacts: list[ServedArtifact]
    memory_max_bytes: int | None
    methods: dict[str, ServedMethod]  # that were asked; all that have the same artifacts share them
    serving: ServingOptions
    replicas: int | None  # that answer; None: as the load shows

    @property
    def is_bitwise(self) -> bool:
        """Whether the bytes of an answer depend on nobody who asks at the same time."""
        return self.serving.bitwise

    @property
    def all_contracts(self) -> list[Contract]:
        """The contract of each artifact."""
        return [artifact.contract for artifact in self.artifacts]

    def body_max_bytes(self, beside_max_bytes: int, upload_max_bytes: int) -> int:
        """Return how many bytes a body with tensors as bytes may have, and so many beside them: what the contract takes
        can be sent, as far as anything so large may be uploaded."""
        largest = [artifact.largest_inputs_bytes for artifact in self.artifacts]
        known = [byte_size for byte_size in largest if byte_size is not None]
        if len(known) < len(largest):
            return upload_max_bytes
        return min(beside_max_bytes + max(known), upload_max_bytes)

    def method(self, name: str) -> ServedMethod:
        """Return what is known of a method. Raises MethodNotFound."""
        if name not in self.methods:
            buckets = [BucketContract(served.sizes, served.contract.method(name)) for served in self.artifacts]
            is_open = self.artifacts[0].contract.open
            self.methods[name] = ServedMethod(buckets, is_open=is_open, memory_max_bytes=self.memory_max_bytes)
        return self.methods[name]


@dataclass(frozen=True, slots=True)
class AnswerWarning:
    """Why not to trust an answer, and what is known about that."""

    text: str
    details: list[str]


class InferenceResult(NamedTuple):
    """The outputs of one request, the version that gave them, and why not to trust them, if there is a reason.

    `returns` is how all outputs of the method nest, with the constants beside the tensors. `complex_outputs` names the
    complex ones; `has_only_tensors` is whether there are neither those nor constants. `seed` seeded the random numbers;
    None if none are drawn, unless the request named it.
    """

    model_name: str
    model_version: int
    outputs: list[Tensor]
    returns: Structure
    complex_outputs: frozenset[str]
    has_only_tensors: bool
    warnings: list[AnswerWarning]
    seed: int | None = None


class Inference:
    """Answers named tensors with a model's outputs, or refuses them with the clause of the contract that they break."""

    def __init__(
        self,
        store: Store,
        pool: Pool,
        *,
        memory_max_bytes: int | None = None,
        only_called: bool = False,
        live_checker: LiveChecker | None = None,
        bitwise: Bitwise | None = None,
    ) -> None:
        """`memory_max_bytes` is what a call may need whose sizes are beyond those that were called; None: any.

        With `only_called`, nothing is answered that rests on what the process that traced has found. The
        `live_checker` has a share of the answers compared with the model in Python. Without `bitwise`, requests to a
        model that is served bitwise are answered one by one.
        """
        self.live_checker = live_checker
        if live_checker is not None:
            pool.share_memory(live_checker)
        self.bitwise = bitwise
        self._memory_max_bytes = memory_max_bytes
        self._only_called = only_called
        self.statistics = Statistics()
        self._store = store
        self._pool = pool
        # The tenant is part of each key: what another tenant has stays hidden.
        self._models = Lookup(self._find, _MODELS_MAX, version=self._last_write, max_age_s=_MODEL_AGE_S)
        # Artifacts, contracts and what was submitted never change.
        self._artifacts = Lookup(store.artifacts.get, _ARTIFACTS_MAX)
        self._image_readings = Lookup(self._find_image_readings, _ARTIFACTS_MAX)
        self._contract: Callable[[str, str], tuple[Contract, int | None, int]] = lru_cache(_CONTRACTS_MAX)(
            self._load_contract
        )
        # What was worked out of contracts stays as long as they do.
        self._methods: Callable[[Hashable], dict[str, ServedMethod]] = lru_cache(_CONTRACTS_MAX)(lambda _: {})

    async def find(self, tenant: str, reference: str, device: str | None) -> ServedModel:
        """Find what `name`, `name@alias` or `name:version` names; without a device, the CPU is preferred.

        Raises InvalidName, ModelNotFound, AliasNotFound, VersionNotFound, ArtifactNotFound or ArtifactWithdrawn.
        """
        return await self._models.ask(tenant, reference, device)

    def refuse_if_full(self, model: ServedModel) -> None:
        """Raise at once what `answer` would raise now, whatever is asked, so that nothing of a request need be read.

        Raises PoolSaturated, PoolMemoryShort, RunnerLost or ShuttingDown. Of a model with buckets, each must refuse.
        """
        watch, first = Stopwatch(), None
        for served in model.artifacts:
            try:
                threads = self._threads(model, served.digest)
                self._pool.refuse_if_full(model.tenant, served.digest, served.archive_bytes, threads)
            except ServiceError as error:
                first = first or error
            else:
                return
        if first is not None:
            self.statistics.find((model.tenant, model.name, model.version.version)).fail(first, watch.whole_ns)
            raise first

    async def image_readings(self, model: ServedModel, method: str) -> Sequence[ImageReading | None]:
        """Return how each picture among the samples of the method was read, as `picture_input.image_readings` does."""
        readings = await self._image_readings.ask(model.tenant, model.version.trace_request)
        return readings.get(method, [])

    async def answer(
        self,
        model: ServedModel,
        method: str,
        tensors: Sequence[Tensor],
        outputs: Sequence[str] | None = None,
        *,
        seed: int | None = None,
        timeout_s: float | None = None,
        failure: Exception | None = None,
    ) -> InferenceResult:
        """Answer tensors in any order with the outputs that are named, or with all, in that order.

        `seed` seeds the random numbers that are drawn; without it, each request has a new seed. An answer that takes
        more than `timeout_s` is not waited for. A `failure` with which `submit` has ended is raised, and nobody asked.

        Raises MethodNotFound, a ContractViolation, BlobMissing, InferenceTimeout and what `Pool.infer` raises.
        """
        with (
            self.statistics.measure((model.tenant, model.name, model.version.version)) as counted,
            telemetry.span("infer", _describe(model, method)) if telemetry.is_on() else nullcontext(),
        ):
            return await self._answer(model, method, tensors, outputs, seed, timeout_s, failure, counted)

    async def prepare(self, model: ServedModel, only: str | None = None) -> None:
        """Have a process ready for each of the model's artifacts, or for the one of this digest.

        Raises BlobMissing and what `Pool.prepare` raises.
        """
        for place, served in enumerate(model.artifacts):
            if only not in (None, served.digest):
                continue
            artifact = await self._artifacts.ask(model.tenant, served.digest)
            await self._pool.prepare(
                model.tenant,
                artifact,
                served.digest,
                as_saved=model.is_bitwise,
                model=model.name,
                threads=self._threads(model, served.digest),
                replicas=model.replicas,
            )
            await self._try_rows(model, place, artifact)

    async def release(self, model: ServedModel) -> None:
        """End the processes of the model's artifacts, once they have answered. The next request starts others."""
        for served in model.artifacts:
            await self._pool.release(model.tenant, served.digest, self._threads(model, served.digest))

    async def close(self) -> None:
        """Cut the answers that are being computed, and end all processes."""
        await self._pool.close(0)
        if self.live_checker is not None:
            await self.live_checker.close()

    async def _answer(
        self,
        model: ServedModel,
        method: str,
        tensors: Sequence[Tensor],
        outputs: Sequence[str] | None,
        seed: int | None,
        timeout_s: float | None,
        failure: Exception | None,
        counted: VersionStatistics,
    ) -> InferenceResult:
        watch = Stopwatch()
        served = model.method(method)
        try:
            accepted = await _accept(served, tensors)
        except ContractViolation as violation:
            if self._only_called and await self._would_take(model, method, tensors):
                violation.facts = {**violation.facts, "remedy": NOT_CALLED}
            raise
        input_ns, began_ns = watch.lap(), time_ns()
        if failure is not None:
            raise failure
        digest = model.artifacts[accepted.place].digest
        artifact = await self._artifacts.ask(model.tenant, digest)
        used = _seed_to_use(served, accepted, seed)
        turns = _Turns(watch, counted)
        try:
            async with asyncio.timeout(timeout_s):
                await self._try_rows(model, accepted.place, artifact)
                threads = self._threads(model, digest)
                sharing = self._share(model, method, accepted, threads)
                answered = await self._pool.infer(
                    model.tenant, artifact, digest, method, accepted.tensors, seed=used, on_turn=turns.begin,
                    joining=None if used is not None else sharing.joining,
                    as_saved=model.is_bitwise, row_counts=sharing.row_counts,
                    model=model.name, threads=threads, replicas=model.replicas,
                )  # fmt: skip
        except TimeoutError:
            raise InferenceTimeout(f"no answer came within the request's {timeout_s:g} s", limit_s=timeout_s) from None
        finally:
            turns.end()
            if telemetry.is_on():
                _note_turns(turns, began_ns)
        self._count_call(counted, accepted, input_ns, turns, watch)
        self._offer_to_check(model, served, method, accepted, answered)
        return _result(model, served, accepted, answered, outputs, used, _warnings(model.version, artifact, accepted))

    def submit(
        self,
        model: ServedModel,
        method: str,
        tensors: Sequence[Tensor],
        outputs: Sequence[str] | None,
        *,
        seed: int | None,
        answer_max_bytes: int,
        finish: Callable[[InferenceResult | Exception], object],
    ) -> PendingCall | None:
        """Ask for an answer without waiting for anything; None where only `answer` can find out what to answer.

        That is so unless a process is ready, and the answer has no warnings and at most so many bytes. `finish` gets
        the answer, or a failure, which `answer` is to be told. Raises MethodNotFound or a ContractViolation.
        """
        watch = Stopwatch()
        served = model.method(method)
        accepted = served.accept(tensors)
        if accepted.warnings or model.version.verdict is Verdict.REJECTED:
            return None
        if accepted.answer_bytes is None or accepted.answer_bytes > answer_max_bytes:
            return None
        digest = model.artifacts[accepted.place].digest
        threads = self._threads(model, digest)
        if model.is_bitwise and self.bitwise is not None and not self.bitwise.is_known(digest, threads):
            return None
        deployment = self._pool.find_ready(model.tenant, digest, threads, as_saved=model.is_bitwise)
        if deployment is None:
            return None
        used = _seed_to_use(served, accepted, seed)
        counted = self.statistics.find((model.tenant, model.name, model.version.version))
        input_ns, turns = watch.lap(), _Turns(watch, counted)

        def take(answer: Answer) -> None:
            turns.end()
            if isinstance(answer, Exception):
                if isinstance(answer, CallLeft):  # any other failure is counted by `answer`, which is told of it
                    counted.fail(answer, watch.whole_ns)
                finish(answer)
                return
            counted.succeed(watch.whole_ns)
            self._count_call(counted, accepted, input_ns, turns, watch)
            finish(_result(model, served, accepted, answer, outputs, used, []))
            self._offer_to_check(model, served, method, accepted, answer)

        sharing = self._share(model, method, accepted, threads)
        joining = None if used is not None else sharing.joining
        call = PendingCall(method, accepted.tensors, take, used, turns.begin, joining, sharing.row_counts)
        self._pool.submit(deployment, call, model.name, model.replicas)
        return call

    def remembered(self, tenant: str, reference: str, device: str | None) -> ServedModel | None:
        """Return what `find` would return at once; None if it would have to read."""
        return self._models.remembered(tenant, reference, device)

    def pool_figures(self) -> PoolFigures:
        """Return what the pool's runners do now, and what became of those before."""
        return self._pool.figures()

    def threads(self, tenant: str, digest: str, serving: ServingOptions) -> int:
        """Return how many threads compute now for an artifact of a model that is served so, or will with the next start
        of its runner. It may read a file, on any thread."""
        self._pool.take_up(digest)
        return self._pool.threads(tenant, digest, serving)

    def explain_threads(self, digest: str, serving: ServingOptions, threads: int) -> tuple[str, ThreadCount | None]:
        """Return why so many threads compute, and what was measured. It may read a file, on any thread."""
        return self._pool.explain_threads(digest, serving, threads)

    def explain_replicas(self, tenant: str, digest: str, serving: ServingOptions, threads: int) -> tuple[int, str]:
        """Return how many processes are to answer for a tenant's artifact now, and why."""
        return self._pool.explain_replicas(tenant, digest, serving, threads)

    def runner_states(self, tenant: str, digest: str, threads: int) -> list[RunnerState]:
        """Return what the processes with so many threads of a tenant's artifact do."""
        return [runner.state for runner in self._pool.replicas_of((tenant, digest, threads))]

    def running(self, tenant: str, digest: str, threads: int) -> int:
        """Return how many processes with so many threads answer for a tenant's artifact."""
        states = self.runner_states(tenant, digest, threads)
        return sum(state in (RunnerState.READY, RunnerState.BUSY) for state in states)

    def why_not_kept(self, tenant: str, digest: str, threads: int) -> str | None:
        """Return why a pinned process is not kept ready; None if it is, or is not pinned."""
        return self._pool.why_not_kept.get((tenant, digest, threads))

    def _count_call(
        self, counted: VersionStatistics, accepted: Accepted, input_ns: int, turns: "_Turns", watch: Stopwatch
    ) -> None:
        """Count an answer. perf_analyzer gives up if one duration was counted more often than another."""
        counted.input.add(input_ns)
        counted.queue.add(turns.laps[0])
        self.statistics.queues.add(turns.laps[0])
        counted.infer.add(sum(turns.laps[1:]) + watch.lap())
        counted.inferences += accepted.rows
        counted.executions += turns.leads

    def _threads(self, model: ServedModel, digest: str) -> int:
        return self._pool.threads(model.tenant, digest, model.serving)

    def _share(self, model: ServedModel, method: str, accepted: Accepted, threads: int) -> Sharing:
        """Return how a call may be joined with others; of a model that is served bitwise, after `_try_rows`."""
        if not model.is_bitwise:
            return Sharing(accepted.joining)
        if self.bitwise is None:
            return ALONE
        return self.bitwise.share(model.artifacts[accepted.place].digest, threads, method, accepted)

    async def _try_rows(self, model: ServedModel, place: int, artifact: Artifact) -> None:
        """Return when it is known how the artifact's rows are answered here, if the model is served bitwise."""
        digest = model.artifacts[place].digest
        if not model.is_bitwise or self.bitwise is None:
            return
        threads = self._threads(model, digest)
        if self.bitwise.is_known(digest, threads):
            return

        async def ask(method: str, inputs: Sequence[Tensor]) -> list[Tensor]:
            return await self._pool.infer(
                model.tenant, artifact, digest, method, inputs, seed=None,
                as_saved=True, model=model.name, threads=threads, replicas=model.replicas,
            )  # fmt: skip

        async def make() -> list[RowTrial]:
            if artifact.device != "cpu":  # the kind of machine does not say which GPU it has
                return []
            cases = await asyncio.to_thread(self._read_cases, artifact)
            methods = {method: model.method(method) for method in cases}
            return await try_rows(ask, methods, cases, place)

        await self.bitwise.find_out(model.tenant, digest, threads, make)

    def _read_cases(self, artifact: Artifact) -> dict[str, list[Sequence[Tensor]]]:
        """Return the inputs of the golden cases of each method. Raises BlobMissing."""
        cases: dict[str, list[Sequence[Tensor]]] = {}
        with self._store.blobs.open(artifact.golden.digest) as file, suppress(SafetensorError):
            for case in golden.read(os.dup(file.fileno())):
                cases.setdefault(case.method, []).append(case.inputs)
        return cases

    def _offer_to_check(
        self, model: ServedModel, served: ServedMethod, method: str, accepted: Accepted, answered: Sequence[Tensor]
    ) -> None:
        """Have the answer checked beside all requests, if it is drawn for that."""
        if self.live_checker is None or not self.live_checker.draws():
            return
        self.live_checker.offer(
            LiveCall(
                tenant=model.tenant,
                model=model.name,
                version=model.version.version,
                digest=model.artifacts[accepted.place].digest,
                method=method,
                inputs=accepted.tensors,
                outputs=answered,
                returns=served.contracts[accepted.place].returns,
                archive_bytes=model.artifacts[accepted.place].archive_bytes,
                trace_context=telemetry.carry({}) if telemetry.is_on() else None,
            )
        )

    def _last_write(self, tenant: str, reference: str, device: str | None) -> Hashable:  # noqa: ARG002
        return self._store.models.last_write(tenant)

    def _find(self, tenant: str, reference: str, device: str | None) -> ServedModel:
        ref = ModelRef.parse(reference)
        version = self._store.models.resolve(tenant, ref)
        wanted = device or version.usual_device
        if wanted not in version.artifacts:
            devices = sorted(version.artifacts)
            raise ArtifactNotFound(
                f"this version was traced for {', '.join(devices)}, and not for {wanted}",
                devices=devices, remedy="ask for a device that it was traced for, or trace it with `devices`",
            )  # fmt: skip
        buckets = version.artifacts_for(wanted)
        _refuse_withdrawn(ref.name, version, [bucket.digest for bucket in buckets])
        artifacts = [
            ServedArtifact(bucket.digest, bucket.sizes, *self._contract(tenant, bucket.digest)) for bucket in buckets
        ]
        methods = self._methods(tuple((bucket.digest, *bucket.sizes.items()) for bucket in buckets))
        for bucket in buckets:
            self._pool.take_up(bucket.digest)
        serving = self._store.models.serving(tenant, ref.name)
        replicas = self._pool.replicas(serving.replicas)
        return ServedModel(tenant, ref.name, version, artifacts, self._memory_max_bytes, methods, serving, replicas)

    def _find_image_readings(self, tenant: str, trace_request: str) -> dict[str, list[ImageReading | None]]:
        return image_readings(self._store.trace_requests.get(tenant, trace_request).spec.check.samples)

    async def _would_take(self, model: ServedModel, method: str, tensors: Sequence[Tensor]) -> bool:
        """Whether a whole contract takes inputs of these datatypes and shapes."""
        artifacts = [await self._artifacts.ask(model.tenant, served.digest) for served in model.artifacts]
        whole = (artifact.contract.methods[method] for artifact in artifacts)
        return any(contract.takes(tensor.spec for tensor in tensors) for contract in whole)

    def _load_contract(self, tenant: str, digest: str) -> tuple[Contract, int | None, int]:
        """Return what the artifact answers, the bytes of the inputs of the largest call, if there is one, and those of
        the archive."""
        artifact = self._store.artifacts.get(tenant, digest)
        contract, archive_bytes = artifact.contract, artifact.archive.byte_size
        served = called_sizes.only_called(contract) if self._only_called else contract
        methods = served.methods.values()
        if served.open or not all(map(is_bounded, methods)):
            return served, None, archive_bytes
        return served, max(map(largest_inputs_bytes, methods)), archive_bytes


def _describe(model: ServedModel, method: str) -> telemetry.Attributes:
    """Return what the span of an inference says of it."""
    return {
        "tracehouse.tenant": model.tenant,
        "tracehouse.model": model.name,
        "tracehouse.version": model.version.version,
        "tracehouse.method": method,
    }


def _note_turns(turns: "_Turns", began_ns: int) -> None:
    """Add how long the call waited for a runner, its start included, and how long the runner took."""
    now = time_ns()
    sent_ns = min(began_ns + turns.laps[0], now) if turns.laps else now
    telemetry.note_span("wait for a runner", began_ns, sent_ns)
    if turns.laps:
        telemetry.note_span("runner", sent_ns, now, {"tracehouse.times_sent": len(turns.laps)})


class _Turns:
    """When a call was sent to a runner: more than once if one was lost. `leads`: it was not joined to another one.

    Until it is sent, or has its end, it counts as waiting.
    """

    def __init__(self, watch: Stopwatch, counted: VersionStatistics) -> None:
        self._watch = watch
        self._counted = counted
        self.laps: list[int] = []
        self.leads = False
        self._waits = True
        counted.waiting += 1

    def begin(self, leads: bool) -> None:
        self.end()
        self.laps.append(self._watch.lap())
        self.leads = leads

    def end(self) -> None:
        if self._waits:
            self._waits = False
            self._counted.waiting -= 1


async def _accept(served: ServedMethod, tensors: Sequence[Tensor]) -> Accepted:
    if sum(len(tensor.data) for tensor in tensors) <= _CHECKED_HERE_MAX_BYTES:
        return served.accept(tensors)
    return await asyncio.to_thread(served.accept, tensors)


def _returned(contracts: Sequence[MethodContract]) -> list[tuple[Structure, frozenset[str], bool]]:
    """Return what is to be known of what a method returns, for each of its contracts."""
    found = [contract.returns for contract in contracts]
    return [(one, frozenset(complex_tensors_of(one)), has_only_real_tensors(one)) for one in found]


def _seed_to_use(served: ServedMethod, accepted: Accepted, seed: int | None) -> int | None:
    """Return the seed of the request, or a new one; None for a method that draws nothing and is asked for no seed."""
    if seed is not None or not served.contracts[accepted.place].stochastic:
        return seed
    return secrets.randbits(_SEED_BITS)


def _result(
    model: ServedModel,
    served: ServedMethod,
    accepted: Accepted,
    answered: list[Tensor],
    outputs: Sequence[str] | None,
    seed: int | None,
    warnings: list[AnswerWarning],
) -> InferenceResult:
    if outputs is not None:
        by_name = {tensor.name: tensor for tensor in answered}
        answered = [by_name[name] for name in outputs]
    returns, complex_outputs, has_only_tensors = served.once(_returned)[accepted.place]
    return InferenceResult(
        model_name=model.name,
        model_version=model.version.version,
        outputs=answered,
        returns=returns,
        complex_outputs=complex_outputs,
        has_only_tensors=has_only_tensors,
        warnings=warnings,
        seed=seed,
    )


def _refuse_withdrawn(name: str, version: ModelVersion, digests: Sequence[str]) -> None:
    """Raise ArtifactWithdrawn if a later check refuted one of the artifacts."""
    for digest in digests:
        if (trace_request := version.withdrawn.get(digest)) is not None:
            raise ArtifactWithdrawn(
                f"a later check, trace request {trace_request}, found a wrong answer that version {version.version} of "
                f"{name!r} promises to be right",
                digest=digest, trace_request=trace_request, model=name, version=version.version,
                remedy=f"GET /trace/{trace_request} has the findings, and the version that the check left, if any: "
                f"promote that one, or trace a changed model",
            )  # fmt: skip


def _warnings(version: ModelVersion, artifact: Artifact, accepted: Accepted) -> list[AnswerWarning]:
    warnings = []
    if version.verdict is Verdict.REJECTED:
        warnings.append(AnswerWarning(UNSOUND, [finding.detail for finding in artifact.check.findings]))
    if accepted.warnings:
        warnings.append(AnswerWarning(UNTRIED, [*accepted.warnings]))
    return warnings
