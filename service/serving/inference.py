"""The data plane: which artifact answers a request, whether its contract takes the inputs, and the pool's answer.

Every transport asks it in two steps: `find`, because parsing tensors needs the contract, and then `answer` with named
tensors.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from service.domain.errors import ArtifactNotFound, ArtifactWithdrawn
from service.domain.model import Bucket, ModelRef, ModelVersion
from service.serving.buckets import BucketContract, accept
from service.serving.lookup import Lookup
from service.serving.pool import Pool
from service.serving.statistics import Statistics, Stopwatch, VersionStatistics
from service.storage.database import Store
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.contract import called_sizes
from tracehouse.contract.contract import AcceptedInputs, Contract, MethodContract
from tracehouse.contract.input_bytes import largest_inputs_bytes
from tracehouse.contract.structure import Structure
from tracehouse.errors import ContractViolation, InferenceTimeout
from tracehouse.findings.verdict import Verdict
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

    `largest_inputs_bytes` is the size of the inputs of the largest call that its contract takes.
    """

    digest: str
    sizes: dict[str, int]
    contract: Contract
    largest_inputs_bytes: int


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The version that a model reference names, and its artifacts for one device."""

    tenant: str
    name: str
    version: ModelVersion
    artifacts: list[ServedArtifact]

    @property
    def all_contracts(self) -> list[Contract]:
        """The contract of each artifact."""
        return [artifact.contract for artifact in self.artifacts]

    def contracts(self, method: str) -> list[MethodContract]:
        """Return the method's contract in each artifact. Raises MethodNotFound."""
        return [artifact.contract.method(method) for artifact in self.artifacts]


@dataclass(frozen=True, slots=True)
class AnswerWarning:
    """Why not to trust an answer, and what is known about that."""

    text: str
    details: list[str]


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """The outputs of one request, the version that gave them, and why not to trust them, if there is a reason.

    `returns` is how all outputs of the method nest, with the constants beside the tensors. `seed` seeded the random
    numbers; None if none are drawn, unless the request named it.
    """

    model_name: str
    model_version: int
    outputs: list[Tensor]
    returns: Structure
    warnings: list[AnswerWarning]
    seed: int | None = None


class Inference:
    """Answers named tensors with a model's outputs, or refuses them with the clause of the contract that they break."""

    def __init__(
        self, store: Store, pool: Pool, *, memory_max_bytes: int | None = None, only_called: bool = False
    ) -> None:
        """`memory_max_bytes` is what a call may need whose sizes are beyond those that were called; None: any.

        With `only_called`, nothing is answered that rests on what the process that traced has found.
        """
        self._memory_max_bytes = memory_max_bytes
        self._only_called = only_called
        self.statistics = Statistics()
        self._store = store
        self._pool = pool
        # The tenant is part of each key: what another tenant has stays hidden.
        self._models = Lookup(self._find, _MODELS_MAX, version=lambda: store.writes, max_age_s=_MODEL_AGE_S)
        # Artifacts and contracts never change.
        self._artifacts = Lookup(store.artifacts.get, _ARTIFACTS_MAX)
        self._contract: Callable[[str, str], tuple[Contract, int]] = lru_cache(_CONTRACTS_MAX)(self._load_contract)

    async def find(self, tenant: str, reference: str, device: str | None) -> ServedModel:
        """Find what `name`, `name@alias` or `name:version` names; without a device, the CPU is preferred.

        Raises InvalidName, ModelNotFound, AliasNotFound, VersionNotFound, ArtifactNotFound or ArtifactWithdrawn.
        """
        return await self._models.ask(tenant, reference, device)

    async def answer(
        self,
        model: ServedModel,
        method: str,
        tensors: Sequence[Tensor],
        outputs: Sequence[str] | None = None,
        *,
        seed: int | None = None,
        timeout_s: float | None = None,
    ) -> InferenceResult:
        """Answer tensors in any order with the outputs that are named, or with all, in that order.

        `seed` seeds the random numbers that are drawn; without it, each request has a new seed. An answer that takes
        more than `timeout_s` is not waited for.

        Raises MethodNotFound, a ContractViolation, BlobMissing, InferenceTimeout and what `Pool.infer` raises.
        """
        with self.statistics.measure((model.tenant, model.name, model.version.version)) as counted:
            return await self._answer(model, method, tensors, outputs, seed, timeout_s, counted)

    async def prepare(self, model: ServedModel) -> None:
        """Have a process ready for each of the model's artifacts. Raises BlobMissing and what `Pool.prepare` raises."""
        for served in model.artifacts:
            artifact = await self._artifacts.ask(model.tenant, served.digest)
            await self._pool.prepare(model.tenant, artifact, served.digest)

    async def release(self, model: ServedModel) -> None:
        """End the processes of the model's artifacts, once they have answered. The next request starts others."""
        for served in model.artifacts:
            await self._pool.release(model.tenant, served.digest)

    async def _answer(
        self,
        model: ServedModel,
        method: str,
        tensors: Sequence[Tensor],
        outputs: Sequence[str] | None,
        seed: int | None,
        timeout_s: float | None,
        counted: VersionStatistics,
    ) -> InferenceResult:
        watch = Stopwatch()
        contracts = model.contracts(method)
        try:
            place, accepted = await self._accept(model, contracts, tensors)
        except ContractViolation as violation:
            if self._only_called and await self._would_take(model, method, tensors):
                violation.facts = {**violation.facts, "remedy": NOT_CALLED}
            raise
        counted.input.add(watch.lap())
        digest = model.artifacts[place].digest
        artifact = await self._artifacts.ask(model.tenant, digest)
        used = secrets.randbits(_SEED_BITS) if seed is None else seed
        laps: list[int] = []  # a second one if a process was lost and another one is asked
        try:
            async with asyncio.timeout(timeout_s):
                answered = await self._pool.infer(
                    model.tenant, artifact, digest, method, accepted.tensors, seed=used,
                    on_turn=lambda: laps.append(watch.lap()),
                )  # fmt: skip
        except TimeoutError:
            raise InferenceTimeout(f"no answer came within the request's {timeout_s:g} s", limit_s=timeout_s) from None
        counted.queue.add(laps[0])
        counted.infer.add(sum(laps[1:]) + watch.lap())
        counted.inferences += _count_rows(contracts[place], accepted.tensors)
        by_name = {tensor.name: tensor for tensor in answered}
        return InferenceResult(
            model_name=model.name,
            model_version=model.version.version,
            outputs=answered if outputs is None else [by_name[name] for name in outputs],
            returns=contracts[place].returns,
            warnings=_warnings(model.version, artifact, accepted),
            seed=used if contracts[place].stochastic else seed,
        )

    def _find(self, tenant: str, reference: str, device: str | None) -> ServedModel:
        ref = ModelRef.parse(reference)
        version = self._store.models.resolve(tenant, ref)
        devices = sorted(version.artifacts)  # cpu is the first
        wanted = device or devices[0]
        if wanted not in version.artifacts:
            raise ArtifactNotFound(
                f"this version was traced for {', '.join(devices)}, and not for {wanted}",
                devices=devices, remedy="ask for a device that it was traced for, or trace it with `devices`",
            )  # fmt: skip
        buckets = [bucket for bucket in version.buckets if bucket.device == wanted]
        buckets = buckets or [Bucket(device=wanted, sizes={}, digest=version.artifacts[wanted])]
        _refuse_withdrawn(ref.name, version, [bucket.digest for bucket in buckets])
        artifacts = [
            ServedArtifact(bucket.digest, bucket.sizes, *self._contract(tenant, bucket.digest)) for bucket in buckets
        ]
        return ServedModel(tenant, ref.name, version, artifacts)

    async def _would_take(self, model: ServedModel, method: str, tensors: Sequence[Tensor]) -> bool:
        """Whether a whole contract takes inputs of these datatypes and shapes."""
        artifacts = [await self._artifacts.ask(model.tenant, served.digest) for served in model.artifacts]
        whole = (artifact.contract.methods[method] for artifact in artifacts)
        return any(contract.takes(tensor.spec for tensor in tensors) for contract in whole)

    def _load_contract(self, tenant: str, digest: str) -> tuple[Contract, int]:
        """Return what the artifact answers, and the bytes of the inputs of the largest call."""
        contract = self._store.artifacts.get(tenant, digest).contract
        served = called_sizes.only_called(contract) if self._only_called else contract
        return served, max(map(largest_inputs_bytes, served.methods.values()))

    async def _accept(
        self, model: ServedModel, contracts: Sequence[MethodContract], tensors: Sequence[Tensor]
    ) -> tuple[int, AcceptedInputs]:
        buckets = [
            BucketContract(served.sizes, contract) for served, contract in zip(model.artifacts, contracts, strict=True)
        ]
        is_open = model.artifacts[0].contract.open
        if sum(len(tensor.data) for tensor in tensors) <= _CHECKED_HERE_MAX_BYTES:
            return accept(tensors, buckets, is_open=is_open, memory_max_bytes=self._memory_max_bytes)
        return await asyncio.to_thread(
            accept, tensors, buckets, is_open=is_open, memory_max_bytes=self._memory_max_bytes
        )


def _count_rows(contract: MethodContract, tensors: Sequence[Tensor]) -> int:
    """Return the number of independent rows in a call; 1 if there are none."""
    batch = contract.at_ranks(tensors).batch
    if batch is None:
        return 1
    name, dim = next(iter(batch.inputs.items()))
    return next(tensor.shape[dim] for tensor in tensors if tensor.name == name)


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


def _warnings(version: ModelVersion, artifact: Artifact, accepted: AcceptedInputs) -> list[AnswerWarning]:
    warnings = []
    if version.verdict is Verdict.REJECTED:
        warnings.append(AnswerWarning(UNSOUND, [finding.detail for finding in artifact.check.findings]))
    if accepted.warnings:
        warnings.append(AnswerWarning(UNTRIED, [*accepted.warnings]))
    return warnings
