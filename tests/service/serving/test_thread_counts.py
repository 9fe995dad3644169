"""Threads measured beside a real runner: nobody waits for that, and what is found holds without a break."""

import asyncio
import math
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from service.domain.serving_options import ModelKey, ServingOptions
from service.domain.thread_count import ThreadStep, numbers_to_try
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.serving.forms import Forms
from service.serving.pool import Pool
from service.serving.runner import Runner, RunnerState
from service.serving.thread_counts import ThreadCounts, why_fixed
from service.storage.blobs import Blobs
from tests.conftest import PATIENCE_S
from tests.pool_limits import pool_limits
from tests.service.serving.conftest import HoldStarts, StoppedStarts
from tests.service.serving.test_forms import TRIAL, Layers, X
from tests.service.serving.test_pool import FOR_AGES, SEED, TENANT, Counts, inputs, until
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.contract.contract import Contract, MethodClaim
from tracehouse.contract.regions import Region, Span
from tracehouse.errors import GoldenCaseFailed
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import unpack
from workers.thread_trial import TIMED_MAX, TakeTime, ThreadRunner

pytestmark = pytest.mark.anyio

MODEL = "layers"
UNSET = ServingOptions()
STEPS = [ThreadStep(threads=2, fewer=1, seconds=1.0, fewer_seconds=2.0, speedup=2.0, slowest=2.0)]


def best_with(best: int) -> TakeTime:
    """Twice the threads are twice as fast up to so many, and no faster beyond."""

    def take_time(threads: int, call: Callable[[], object]) -> float:
        call()
        return 1.0 / min(threads, best)

    return take_time


BEST_WITH_TWO = best_with(2)


def never(*_: object) -> None:
    pytest.fail("it was measured")


NewCounts = Callable[..., ThreadCounts]


@pytest.fixture
def new_counts(torch_zygote: Zygote, blobs: Blobs, tmp_path: Path) -> NewCounts:
    """Thread counts that keep their results in one directory, as those of one service after another do."""

    def new_counts(measure: TakeTime = BEST_WITH_TWO, **changes: Any) -> ThreadCounts:
        usual = {
            "run": ThreadRunner(torch_zygote, blobs, TRIAL, measure).run,
            "threads_max": 4,
            "machine": lambda threads: f"this one, threads: {threads}",
            "torch_version": torch.__version__,
        }
        return ThreadCounts(tmp_path / "threads", **(usual | changes))

    return new_counts


@pytest.fixture
async def new_pool(torch_zygote: Zygote, blobs: Blobs) -> AsyncIterator[Callable[..., Pool]]:
    """Pools that have threads measured; closed when the test ends."""
    pools = []

    def new_pool(counts: ThreadCounts | None, **changes: Any) -> Pool:
        pools.append(Pool(torch_zygote, blobs, pool_limits(**changes), thread_counts=counts))
        return pools[-1]

    yield new_pool
    for pool in pools:
        await pool.close(grace_s=0)


@pytest.fixture
def layers(trace, blobs: Blobs) -> Artifact:
    return trace(blobs, Layers(), torch.randn(3, 4))


async def ask(pool: Pool, artifact: Artifact, *args: Any, options: ServingOptions = UNSET, model: str = MODEL) -> Any:
    """Ask as the data plane does: with the threads that hold now."""
    outputs = await pool.infer(
        TENANT, artifact, artifact.digest, "forward", inputs(artifact, *args), seed=SEED,
        model=model, threads=pool.threads(TENANT, artifact.digest, options), replicas=options.replicas,
    )  # fmt: skip
    return [unpack(tensor.datatype, tensor.data) for tensor in outputs]


def look_after(pool: Pool, options: ServingOptions = UNSET, model: str = MODEL) -> None:
    pool.look_after({ModelKey(TENANT, model): options})


def threads_of(pool: Pool, artifact: Artifact) -> set[int]:
    """The numbers of threads of the artifact's runners that are ready."""
    return {
        threads
        for (_, digest, threads), runner in pool.runners.items()
        if digest == artifact.digest and runner.state is RunnerState.READY
    }


async def changes_to(pool: Pool, artifact: Artifact, threads: int, options: ServingOptions = UNSET) -> None:
    await until(lambda: look_after(pool, options) or threads_of(pool, artifact) == {threads})


async def test_what_was_measured_takes_the_place_of_the_usual_number(
    new_counts: NewCounts, new_pool, layers: Artifact
) -> None:
    counts = new_counts()
    pool = new_pool(counts)
    answered = await ask(pool, layers, X)
    assert threads_of(pool, layers) == {1}
    assert pool.explain_threads(layers.digest, UNSET, 1) == (
        "it is not measured yet: that begins after its first answers, once nobody waits for one", None
    )  # fmt: skip

    await changes_to(pool, layers, 2)

    assert await ask(pool, layers, X) == [pytest.approx(answered[0], rel=1e-5)]
    assert threads_of(pool, layers) == {2}
    found = counts.find(layers.digest)
    assert found is not None
    assert (found.threads, found.machine) == (2, "this one, threads: 4")
    assert [(one.fewer, one.threads, one.speedup) for one in found.steps] == [(1, 2, 2.0), (2, 4, 1.0)]
    assert pool.explain_threads(layers.digest, UNSET, 2) == (
        "with 4, a call was only 1.00 times as fast", found
    )  # fmt: skip


@pytest.mark.parametrize(("best", "steps"), [(1, [2]), (4, [2, 4]), (8, [2, 4])])
async def test_more_threads_are_tried_as_long_as_calls_gain_by_them(
    new_counts: NewCounts, layers: Artifact, best: int, steps: list[int]
) -> None:
    found = await new_counts(best_with(best)).measure(layers, layers.digest)

    assert found is not None
    assert found.threads == min(best, 4)
    assert [one.threads for one in found.steps] == steps


async def test_threads_that_slow_one_shape_down_do_not_compute(
    new_counts: NewCounts, layers: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much the others gain."""
    monkeypatch.setattr("workers.thread_trial._TIMED_S", math.inf)  # so many calls on a busy machine, too
    rows = Region(spans={"batch": [Span(low=1, high=16)]}, basis="proven")
    claim = MethodClaim(shapes={"x": ("batch", 4)}, regions=[rows], batch=None)
    method = layers.contract.methods["forward"].with_claim(claim)
    artifact = layers.model_copy(update={"contract": Contract(methods={"forward": method})})
    timed: list[int] = []

    def take_time(threads: int, call: Callable[[], object]) -> float:
        """Four times as fast with two threads, but for the shape that is timed last."""
        call()
        timed.append(threads)
        if threads == 1:
            return 1.0
        return 0.25 if len(timed) <= 2 * 2 * TIMED_MAX else 2.0

    found = await new_counts(take_time, threads_max=2).measure(artifact, artifact.digest)

    assert found is not None
    assert found.threads == 1
    assert found.why == "with 2, a call was only 2.00 times as fast, and 0.50 times with one shape"


async def test_the_next_start_takes_the_number_up_at_once(new_counts: NewCounts, new_pool, layers: Artifact) -> None:
    await new_counts().measure(layers, layers.digest)
    pool = new_pool(new_counts(run=never))
    pool.take_up(layers.digest)

    await ask(pool, layers, X)
    look_after(pool)

    assert threads_of(pool, layers) == {2}


@pytest.mark.parametrize(
    "changes", [{"machine": "another one, threads: {}".format}, {"torch_version": "0.1"}, {"threads_max": 8}]
)
async def test_another_machine_or_torch_knows_nothing_of_it(
    new_counts: NewCounts, layers: Artifact, changes: dict[str, Any]
) -> None:
    await new_counts().measure(layers, layers.digest)

    assert new_counts().find(layers.digest) is not None
    assert new_counts(**changes).find(layers.digest) is None


@pytest.mark.parametrize(
    "options", [ServingOptions(threads=1), ServingOptions(threads=3), ServingOptions(bitwise=True)], ids=repr
)
async def test_a_number_that_is_set_and_a_model_that_is_served_bitwise_keep_theirs(
    new_counts: NewCounts, new_pool, layers: Artifact, options: ServingOptions
) -> None:
    """Neither is measured, nor goes by what another model of the artifact had measured."""
    pool = new_pool(new_counts(run=never))
    before = pool.threads(TENANT, layers.digest, options)
    await ask(pool, layers, X, options=options)
    look_after(pool, options)
    await pool.close(grace_s=0)
    await new_counts().measure(layers, layers.digest)

    pool = new_pool(new_counts(run=never))
    pool.take_up(layers.digest)
    await ask(pool, layers, X, options=options)
    look_after(pool, options)

    assert threads_of(pool, layers) == {before}
    assert pool.threads(TENANT, layers.digest, UNSET) in (1, 2)


async def test_without_a_measurement_the_number_of_the_service_holds(new_pool, layers: Artifact) -> None:
    pool = new_pool(None)

    await ask(pool, layers, X)
    look_after(pool)

    assert threads_of(pool, layers) == {1}
    assert pool.explain_threads(layers.digest, UNSET, 1) == ("RUNNER_THREADS", None)


async def test_requests_are_answered_while_it_is_measured(new_counts: NewCounts, new_pool, layers: Artifact) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def run(*_: object) -> Sequence[ThreadStep]:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return STEPS

    pool = new_pool(new_counts(run=run))
    await ask(pool, layers, X)
    look_after(pool)
    await asyncio.to_thread(begun.wait, PATIENCE_S)

    assert await ask(pool, layers, X) == await ask(pool, layers, X)
    assert threads_of(pool, layers) == {1}
    go_on.set()
    await changes_to(pool, layers, 2)


async def test_a_measurement_gives_way_to_the_runner(new_counts: NewCounts, new_pool, layers: Artifact) -> None:
    found: dict[str, int] = {}

    def measure(*asked: Any) -> float:
        runner = pool.runners[TENANT, layers.digest, 1].pid
        zygote = psutil.Process(runner).parent()
        assert zygote is not None
        for child in zygote.children():
            found["runner" if child.pid == runner else "measured"] = child.nice()
        return BEST_WITH_TWO(*asked)

    pool = new_pool(new_counts(measure))
    await ask(pool, layers, X)

    await changes_to(pool, layers, 2)

    assert found == {"runner": os.nice(0), "measured": min(os.nice(0) + 10, 19)}  # Linux has none lower than 19


async def test_nothing_is_measured_while_somebody_waits_for_an_answer(
    new_counts: NewCounts, new_pool, trace, blobs: Blobs, layers: Artifact
) -> None:
    """It would say how busy the machine is, and slow the others down."""
    measured = []
    pool = new_pool(new_counts(run=lambda *asked: measured.append(asked) or STEPS))
    counts = trace(blobs, Counts(), torch.tensor(1))
    await ask(pool, layers, X)
    waits = asyncio.create_task(ask(pool, counts, FOR_AGES, model="counts"))
    await until(lambda: any(runner.state is RunnerState.BUSY for runner in pool.runners.values()))

    for _ in range(3):
        look_after(pool)
        await asyncio.sleep(0)
    assert measured == []

    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    await until(lambda: look_after(pool) or len(measured) == 1)


async def test_the_usual_number_answers_until_a_runner_with_the_other_one_is_ready(
    new_counts: NewCounts, new_pool, layers: Artifact, hold_starts: HoldStarts
) -> None:
    """Nobody waits for its start."""
    may_start = hold_starts(2)
    pool = new_pool(new_counts(run=lambda *_: STEPS))
    await ask(pool, layers, X)
    await until(lambda: look_after(pool) or (TENANT, layers.digest, 2) in pool._deployments)

    for _ in range(3):
        look_after(pool)
        await ask(pool, layers, X)
    assert threads_of(pool, layers) == {1}
    why, found = pool.explain_threads(layers.digest, UNSET, 1)
    assert why.startswith("2 do once a process with so many is ready")
    assert found is not None

    may_start.set()
    await changes_to(pool, layers, 2)


async def test_where_there_is_no_room_for_both_the_usual_number_goes_on_answering(
    new_counts: NewCounts, new_pool, layers: Artifact
) -> None:
    """Nothing ends for a change. The next start has the number that was measured."""
    await new_counts().measure(layers, layers.digest)
    pool = new_pool(new_counts(run=never), memory_max_bytes=48 * MIB)
    await ask(pool, layers, X)
    [before] = pool.runners.values()
    pool.take_up(layers.digest)

    for _ in range(3):
        look_after(pool)
        await ask(pool, layers, X)
    assert [*pool.runners.values()] == [before]
    assert threads_of(pool, layers) == {1}

    await pool.release(TENANT, layers.digest, 1)
    await ask(pool, layers, X)
    assert threads_of(pool, layers) == {2}


async def test_a_runner_that_is_to_take_another_ones_place_gives_way_to_a_first_one(
    new_counts: NewCounts, new_pool, layers: Artifact, trace, blobs: Blobs, stopped_starts: StoppedStarts
) -> None:
    """It is not needed yet: another one answers."""
    counts = trace(blobs, Counts(), torch.tensor(1))
    await new_counts().measure(layers, layers.digest)
    roomy = new_pool(None)
    await ask(roomy, layers, X)
    [one] = roomy.runners.values()
    pool = new_pool(new_counts(run=never), memory_max_bytes=int(one.resident_bytes * 3.5))
    answered = await ask(pool, layers, X)
    [answers] = pool.runners.values()
    pool.take_up(layers.digest)

    with stopped_starts():
        look_after(pool)
        key = TENANT, layers.digest, 2
        await until(lambda: key in pool.runners and pool.runners[key].pid is not None)

    assert answers.pid is not None
    os.kill(answers.pid, signal.SIGSTOP)
    asked = asyncio.create_task(ask(pool, layers, X))
    await until(lambda: answers.state is RunnerState.BUSY)

    assert await ask(pool, counts, 3, model="counts") == [[3.0]]

    assert key not in pool.runners
    os.kill(answers.pid, signal.SIGCONT)
    assert await asked == [[pytest.approx(answer) for answer in answered[0]]]
    assert answers in pool.runners.values()


async def test_forms_are_raced_with_the_threads_that_were_measured(
    new_counts: NewCounts,
    layers: Artifact,
    torch_zygote: Zygote,
    blobs: Blobs,
    tmp_path: Path,
    hold_starts: HoldStarts,
) -> None:
    """A race before that would be of no use, however long the change takes. It needs no further request."""
    raced: list[int] = []
    may_start = hold_starts(2)

    def race(_artifact: Artifact, threads: int, _cancellation: Cancellation) -> list[Any]:
        raced.append(threads)
        return []

    counts = new_counts(run=lambda *_: STEPS)
    forms = Forms(tmp_path / "forms", race, machine=lambda _: "this one", torch_version=torch.__version__, packages={})
    pool = Pool(torch_zygote, blobs, pool_limits(), forms=forms, thread_counts=counts)
    try:
        await ask(pool, layers, X)
        await until(lambda: look_after(pool) or (TENANT, layers.digest, 2) in pool._deployments)
        pool._deployments[TENANT, layers.digest, 1].race_at = -math.inf
        look_after(pool)
        for _ in range(3):
            await ask(pool, layers, X)
        may_start.set()
        assert raced == []
        await changes_to(pool, layers, 2)

        await until(lambda: look_after(pool) or raced != [])
        assert raced == [2]
    finally:
        await pool.close(grace_s=0)


async def test_an_unload_ends_the_runner_that_starts_beside_too(
    new_counts: NewCounts, new_pool, layers: Artifact
) -> None:
    await new_counts().measure(layers, layers.digest)
    pool = new_pool(new_counts(run=never))
    await ask(pool, layers, X)
    pool.take_up(layers.digest)
    look_after(pool)
    assert (TENANT, layers.digest, 2) in pool._deployments

    await pool.release(TENANT, layers.digest, pool.threads(TENANT, layers.digest, UNSET))

    assert pool.runners == {}


async def test_another_model_of_the_artifact_with_a_number_of_its_own_keeps_its_runner(
    new_counts: NewCounts, new_pool, layers: Artifact
) -> None:
    pool = new_pool(new_counts(run=lambda *_: STEPS))
    fixed = ServingOptions(threads=1)
    options = {ModelKey(TENANT, MODEL): UNSET, ModelKey(TENANT, "fixed"): fixed}
    await ask(pool, layers, X, options=fixed, model="fixed")
    await ask(pool, layers, X)
    [before] = pool.runners.values()

    await until(lambda: pool.look_after(options) or threads_of(pool, layers) == {1, 2})
    for _ in range(3):
        pool.look_after(options)
        await asyncio.gather(*pool._tasks)

    assert threads_of(pool, layers) == {1, 2}
    assert before in pool.runners.values()
    assert pool.threads(TENANT, layers.digest, UNSET) == 2


async def test_a_number_with_which_a_golden_case_fails_is_taken_back(
    new_counts: NewCounts, new_pool, layers: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Runner.start

    async def fail(runner: Runner, *args: Any) -> None:
        if runner._limits.threads == 2:
            raise GoldenCaseFailed("it answered otherwise", case=0)
        await start(runner, *args)

    monkeypatch.setattr(Runner, "start", fail)
    counts = new_counts(run=lambda *_: STEPS)
    pool = new_pool(counts)
    answered = await ask(pool, layers, X)

    def is_taken_back() -> bool:
        look_after(pool)
        found = new_counts().find(layers.digest)  # as the next start would: the file is written last
        return found is not None and found.threads is None

    await until(is_taken_back)

    assert await ask(pool, layers, X) == answered
    found = new_counts().find(layers.digest)
    assert found is not None
    assert found.why.startswith("2 were taken back, because it answered otherwise")
    assert pool.explain_threads(layers.digest, UNSET, 1) == (found.why, found)


async def test_a_start_comes_before_a_measurement(new_counts: NewCounts, new_pool, layers: Artifact, trace, blobs):
    """It needs the memory, and somebody waits for it."""
    seen: list[Cancellation] = []
    ended = threading.Event()

    def run(_artifact: Artifact, _threads_max: int, cancellation: Cancellation) -> None:
        with cancellation.calls(ended.set):
            seen.append(cancellation)
            assert ended.wait(PATIENCE_S)

    pool = new_pool(new_counts(run=run))
    await ask(pool, layers, X)
    look_after(pool)
    await until(lambda: len(seen) == 1)

    counts = trace(blobs, Counts(), torch.tensor(1))
    assert await ask(pool, counts, 3, model="counts") == [[3.0]]

    assert seen[0].reason == "giving way"
    assert threads_of(pool, layers) == {1}


def fixed(artifact: Artifact, **check: Any) -> Artifact:
    return artifact.model_copy(update={"check": artifact.check.model_copy(update=check)})


async def test_what_is_to_be_exact_is_not_measured(new_counts: NewCounts, new_pool, layers: Artifact) -> None:
    methods = {name: method.model_copy(update={"stochastic": True}) for name, method in layers.contract.methods.items()}
    [method] = layers.contract.methods.values()
    draws = layers.model_copy(update={"contract": Contract(methods=methods)})
    reasons = {
        "bit by bit": fixed(layers, tolerance=0.0),
        "rejected": fixed(layers, verdict=Verdict.REJECTED),
        "random": draws,
        "in eval mode": layers.model_copy(update={"training": True}),
        "traced": layers.model_copy(update={"form": "scripted"}),
        "other methods": layers.model_copy(update={"contract": Contract(methods={**methods, "other": method})}),
        "cuda": layers.model_copy(update={"device": "cuda"}),
    }
    assert why_fixed(layers) is None
    for word, artifact in reasons.items():
        assert word in (why_fixed(artifact) or "")

    counts = new_counts(run=never)
    found = await counts.measure(reasons["bit by bit"], layers.digest)

    assert found is not None
    assert found.threads is None
    pool = new_pool(counts)
    await ask(pool, layers, X)
    look_after(pool)
    assert threads_of(pool, layers) == {1}


class Highest(torch.nn.Module):
    """A number in the last digit may make another class the highest."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x).argmax(-1)


async def test_where_rounding_decides_the_usual_number_stays(
    new_counts: NewCounts, layers: Artifact, trace, blobs: Blobs
) -> None:
    artifact = trace(blobs, Highest(), torch.randn(3, 4))

    found = await new_counts(never).measure(artifact, artifact.digest)

    assert found is not None
    assert found.threads is None
    assert "aten::argmax of numbers that it has computed, so that their rounding decides" in found.why


class Cancels(torch.nn.Module):
    """Adds up numbers of which nothing is left but what was lost to rounding."""

    def __init__(self) -> None:
        super().__init__()
        drawn = torch.randn(200_000, generator=torch.Generator().manual_seed(0)) * 1e4
        order = torch.randperm(400_000, generator=torch.Generator().manual_seed(1))
        self.weight = torch.nn.Parameter(torch.cat([drawn, -drawn])[order])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight.sum()


async def test_a_number_with_which_answers_differ_does_not_compute(new_counts: NewCounts, trace, blobs: Blobs) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        artifact = trace(blobs, Cancels(), torch.zeros(2))
    finally:
        torch.set_num_threads(threads)

    found = await new_counts(best_with(4)).measure(artifact, artifact.digest)

    assert found is not None
    assert found.threads is None
    assert "'output' differs: 1 thread gives" in found.why


@pytest.mark.parametrize(
    ("most", "tried"), [(1, []), (2, [2]), (3, [2, 3]), (4, [2, 4]), (6, [2, 4, 6]), (8, [2, 4, 8])]
)
def test_numbers_are_doubled_up_to_all_that_there_are(most: int, tried: list[int]) -> None:
    assert numbers_to_try(most) == tried


async def test_one_processor_needs_no_measurement(new_counts: NewCounts, layers: Artifact) -> None:
    found = await new_counts(never, threads_max=1).measure(layers, layers.digest)

    assert found is not None
    assert (found.threads, found.steps) == (1, [])
