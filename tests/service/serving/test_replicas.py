"""Several runners that answer one model: killed, stopped, crowded, and in other numbers from now on."""

import asyncio
import math
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import torch

from service.domain.errors import FilesUnavailable, PoolMemoryShort
from service.domain.serving_options import ModelKey, ServingOptions
from service.serving.pending_call import PendingCall
from service.serving.pool import Pool
from service.serving.room import Holding, Room
from service.serving.runner import Runner, RunnerState
from service.storage.blobs import Blobs
from tests.conftest import PATIENCE_S
from tests.service.serving.conftest import StoppedStarts
from tests.service.serving.test_pool import (
    FOR_AGES,
    IDLE_AT_ONCE,
    SEED,
    TENANT,
    THREADS,
    Counts,
    NewPool,
    Pick,
    end_idle,
    inputs,
    is_gone,
    joinable,
    one_row,
    until,
)
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import InferenceTimeout, RunnerLost
from tracehouse.tensors.tensor import Tensor, unpack

THEIRS = "theirs"

pytestmark = pytest.mark.anyio


@pytest.fixture
def counts(trace, blobs: Blobs) -> Artifact:
    return trace(blobs, Counts(), torch.tensor(1))


async def ask(
    pool: Pool, artifact: Artifact, *args: Any, replicas: int | None = 2, model: str = "", tenant: str = TENANT
) -> list[Any]:
    outputs = await pool.infer(
        tenant, artifact, artifact.digest, "forward", inputs(artifact, *args), seed=SEED, model=model, replicas=replicas
    )
    return [unpack(tensor.datatype, tensor.data) for tensor in outputs]


def begin(
    pool: Pool, artifact: Artifact, *args: Any, replicas: int | None = 2, tenant: str = TENANT
) -> "asyncio.Task[list[Any]]":
    return asyncio.create_task(ask(pool, artifact, *args, replicas=replicas, tenant=tenant))


def runners(pool: Pool, artifact: Artifact, tenant: str = TENANT) -> list[Runner]:
    return pool.replicas_of((tenant, artifact.digest, THREADS))


def pids(pool: Pool, artifact: Artifact, state: RunnerState = RunnerState.READY, tenant: str = TENANT) -> list[int]:
    return [one.pid for one in runners(pool, artifact, tenant) if one.state is state and one.pid is not None]


async def has_ready(pool: Pool, artifact: Artifact, count: int, tenant: str = TENANT) -> list[int]:
    await until(lambda: len(pids(pool, artifact, tenant=tenant)) == count == len(runners(pool, artifact, tenant)))
    return pids(pool, artifact, tenant=tenant)


async def are_busy(pool: Pool, artifact: Artifact, count: int, tenant: str = TENANT) -> list[int]:
    await until(lambda: len(pids(pool, artifact, RunnerState.BUSY, tenant)) == count)
    return pids(pool, artifact, RunnerState.BUSY, tenant)


async def stand_still(pool: Pool, artifact: Artifact, count: int, tenant: str = TENANT) -> list[int]:
    """Stop so many runners once they are ready: what they are asked now is not answered until they go on."""
    stopped = await has_ready(pool, artifact, count, tenant)
    send(signal.SIGSTOP, *stopped)
    return stopped


def send(number: signal.Signals, *pids: int) -> None:
    for pid in pids:
        os.kill(pid, number)


async def one_runner_bytes(new_pool: NewPool, artifact: Artifact) -> int:
    roomy = new_pool()
    await ask(roomy, artifact, [1.0, 1.0], replicas=1)
    [runner] = runners(roomy, artifact)
    return runner.resident_bytes


async def test_a_model_has_as_many_runners_as_it_asks_for_and_they_compute_at_once(
    new_pool: NewPool, counts: Artifact
) -> None:
    pool = new_pool(replicas_max=3)
    assert [pool.replicas(wanted) for wanted in (1, 2, 3, 4, 1024)] == [1, 2, 3, 3, 3]
    assert await ask(pool, counts, 3, replicas=3) == [[3.0]]
    await has_ready(pool, counts, 3)

    asked = [begin(pool, counts, FOR_AGES, replicas=3) for _ in range(4)]
    assert len(set(await are_busy(pool, counts, 3))) == 3
    [(device, count)] = pool.figures().waiting.items()
    assert (device, count, pool.figures().in_flight[device]) == ("cpu", 1, 4)

    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_without_a_word_a_model_has_one_runner(pool: Pool, doubles: Artifact) -> None:
    for number in range(20):
        assert await ask(pool, doubles, [float(number), 1.0], replicas=1) == [[2.0 * number, 2.0]]
        pool.look_after({})

    assert len(runners(pool, doubles)) == 1


async def test_preparing_starts_all_of_them(pool: Pool, doubles: Artifact) -> None:
    await pool.prepare(TENANT, doubles, doubles.digest, replicas=3)

    assert len(await has_ready(pool, doubles, 3)) == 3


async def test_who_waits_alone_goes_to_the_runner_that_is_free(pool: Pool, counts: Artifact) -> None:
    await ask(pool, counts, 1)
    await has_ready(pool, counts, 2)
    forever = begin(pool, counts, FOR_AGES)
    await are_busy(pool, counts, 1)

    for number in range(5):
        assert await ask(pool, counts, number) == [[float(number)]]

    forever.cancel()


async def test_one_whose_start_was_given_up_is_asked_what_waits_for_another(
    pool: Pool, doubles: Artifact, stopped_starts: StoppedStarts
) -> None:
    with stopped_starts():
        preparing = asyncio.create_task(pool.prepare(TENANT, doubles, doubles.digest, replicas=2))
        await until(lambda: len(pids(pool, doubles, RunnerState.STARTING)) == 1)
        [loading] = pids(pool, doubles, RunnerState.STARTING)
    preparing.cancel()
    await asyncio.gather(preparing, return_exceptions=True)
    pool.look_after({})
    await until(lambda: len(pids(pool, doubles)) == 1)
    [answering] = pids(pool, doubles)
    send(signal.SIGSTOP, answering)
    asked = [begin(pool, doubles, [float(number), 1.0]) for number in range(2)]
    assert await are_busy(pool, doubles, 1) == [answering]

    send(signal.SIGCONT, loading)
    await until(asked[1].done)

    assert not asked[0].done()
    send(signal.SIGCONT, answering)
    assert await asyncio.gather(*asked) == [[[0.0, 2.0]], [[2.0, 2.0]]]


async def test_what_waits_is_shared_out_among_those_that_are_free(pool: Pool, trace, blobs: Blobs) -> None:
    """All six could be joined, and the other runner would stand idle."""
    artifact = trace(blobs, Pick(), torch.tensor([0, 1]))
    await ask(pool, artifact, [0, 1])
    await has_ready(pool, artifact, 2)
    leads: list[bool] = []

    async def one(number: int) -> list[Any]:
        outputs = await pool.infer(
            TENANT, artifact, artifact.digest, "forward", one_row(number), seed=None,
            on_turn=leads.append, joining=joinable(1), replicas=2,
        )  # fmt: skip
        return unpack(outputs[0].datatype, outputs[0].data)

    answers = await asyncio.gather(*(one(number % 4) for number in range(6)))

    assert answers == [[float(number % 4)] for number in range(6)]
    assert leads == [True, False, False] * 2


async def test_one_that_is_killed_costs_no_answer_and_is_started_again(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 1.0])
    for _ in range(3):
        killed, other = await stand_still(pool, doubles, 2)
        asked = [begin(pool, doubles, [float(number), 1.0]) for number in range(4)]
        await are_busy(pool, doubles, 2)
        send(signal.SIGKILL, killed)
        await until(lambda killed=killed: is_gone(killed))
        send(signal.SIGCONT, other)

        assert await asyncio.gather(*asked) == [[[2.0 * number, 2.0]] for number in range(4)]
        assert killed not in await has_ready(pool, doubles, 2)


async def test_one_that_is_killed_while_nobody_asks_it_is_started_again(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 1.0])
    killed, _ = await has_ready(pool, doubles, 2)
    os.kill(killed, signal.SIGKILL)
    await until(lambda: is_gone(killed))

    await until(lambda: pool.look_after({}) or len(pids(pool, doubles)) == 2)

    await has_ready(pool, doubles, 2)
    assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]


async def test_all_that_are_killed_at_once_cost_no_answer(pool: Pool, doubles: Artifact) -> None:
    """They are several losses in a row, and none of them is the artifact's fault."""
    await ask(pool, doubles, [1.0, 1.0], replicas=3)
    stopped = await stand_still(pool, doubles, 3)
    asked = [begin(pool, doubles, [float(number), 1.0], replicas=3) for number in range(3)]
    await are_busy(pool, doubles, 3)
    send(signal.SIGKILL, *stopped)

    assert await asyncio.gather(*asked) == [[[2.0 * number, 2.0]] for number in range(3)]
    await has_ready(pool, doubles, 3)


async def test_a_request_that_ends_each_runner_is_the_one_that_fails(pool: Pool, doubles: Artifact) -> None:
    """It costs two, and no other request is asked with it."""
    await ask(pool, doubles, [1.0, 1.0])
    stopped = await stand_still(pool, doubles, 2)
    first = begin(pool, doubles, [7.0, 7.0])
    [pid] = await are_busy(pool, doubles, 1)
    os.kill(pid, signal.SIGKILL)
    [other] = set(stopped) - {pid}
    await until(lambda: pids(pool, doubles, RunnerState.BUSY) == [other])
    os.kill(other, signal.SIGKILL)

    with pytest.raises(RunnerLost):
        await first
    assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]


async def test_a_request_whose_runners_are_evicted_one_after_the_other_is_answered_by_the_last(
    pool: Pool, doubles: Artifact
) -> None:
    """They end for others, and not because of it."""
    await ask(pool, doubles, [1.0, 1.0], replicas=3)
    stopped = await stand_still(pool, doubles, 3)
    asked = begin(pool, doubles, [0.5, 1.0], replicas=3)
    evicted: list[int] = []
    for _ in range(2):
        await until(lambda: len({*pids(pool, doubles, RunnerState.BUSY)} - {*evicted}) == 1)
        [busy] = [one for one in runners(pool, doubles) if one.state is RunnerState.BUSY]
        assert busy.pid is not None
        evicted.append(busy.pid)
        await busy.evict()
    send(signal.SIGCONT, *{*stopped} - {*evicted})

    assert await asked == [[1.0, 2.0]]


async def test_an_artifact_of_which_no_runner_loads_is_held_back_as_with_one(pool: Pool, doubles: Artifact) -> None:
    damaged = doubles.model_copy(update={"archive": doubles.golden})

    with pytest.raises(RunnerLost) as held:
        await pool.prepare(TENANT, damaged, "damaged", replicas=4)

    assert held.value.facts["held_back"]


async def test_an_artifact_that_ends_all_its_runners_and_one_more_is_held_back(
    pool: Pool, doubles: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(pool, doubles, [1.0, 1.0])
    ask_runner, ended = Runner.ask, []

    def ask_and_kill(runner: Runner, *args: Any) -> None:
        ask_runner(runner, *args)
        assert runner.pid is not None
        ended.append(runner.pid)
        send(signal.SIGKILL, runner.pid)

    await stand_still(pool, doubles, 2)  # none answers before it is killed
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "ask", ask_and_kill)
        with pytest.raises(RunnerLost) as lost:
            await ask(pool, doubles, [1.0, 1.0])
        assert not lost.value.facts.get("held_back")
        await stand_still(pool, doubles, 2)
        with pytest.raises(RunnerLost) as held:
            await ask(pool, doubles, [1.0, 1.0])

    assert held.value.facts["held_back"]
    assert len(ended) == 3
    with pytest.raises(RunnerLost):
        await ask(pool, doubles, [1.0, 1.0])


async def test_one_that_stands_still_keeps_only_what_it_was_asked(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 1.0])
    stopped, _ = await has_ready(pool, doubles, 2)
    os.kill(stopped, signal.SIGSTOP)
    held = begin(pool, doubles, [0.5, 0.5])
    assert await are_busy(pool, doubles, 1) == [stopped]

    for number in range(8):
        assert await ask(pool, doubles, [float(number), 1.0]) == [[2.0 * number, 2.0]]
    assert not held.done()
    os.kill(stopped, signal.SIGCONT)

    assert await held == [[1.0, 1.0]]


async def test_one_that_stands_still_for_too_long_is_replaced(new_pool: NewPool, doubles: Artifact) -> None:
    pool = new_pool(infer_timeout_s=0.2)
    await ask(pool, doubles, [1.0, 1.0])
    stopped, _ = await has_ready(pool, doubles, 2)
    os.kill(stopped, signal.SIGSTOP)

    with pytest.raises(InferenceTimeout):
        await ask(pool, doubles, [1.0, 1.0])

    assert stopped not in await has_ready(pool, doubles, 2)


async def test_those_that_are_killed_while_they_start_cost_the_others_nothing(
    pool: Pool, doubles: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often: it is no reason to hold the artifact back, as long as another one answers."""
    await ask(pool, doubles, [1.0, 1.0], replicas=1)
    [first] = await has_ready(pool, doubles, 1)
    fork, killed = Runner._fork, []

    def fork_and_kill(runner: Runner, *args: Any) -> Any:
        child = fork(runner, *args)
        killed.append(child.pid)
        os.kill(child.pid, signal.SIGKILL)
        return child

    with monkeypatch.context() as patched:
        patched.setattr(Runner, "_fork", fork_and_kill)
        while len(killed) < 3:
            assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]
            await asyncio.sleep(0.01)

    assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]
    assert pool.figures().held_back == 0
    await until(lambda: pool.look_after({}) or len(pids(pool, doubles)) == 2)
    assert first in pids(pool, doubles)


async def test_one_that_is_stopped_while_it_loads_is_replaced_long_before_the_limit_of_a_load(
    new_pool: NewPool, doubles: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, stopped = new_pool(load_timeout_s=10.0**6), list[int]()
    fork = Runner._fork

    def fork_and_stop(runner: Runner, *args: Any) -> Any:
        child = fork(runner, *args)
        if not stopped:
            stopped.append(child.pid)
            os.kill(child.pid, signal.SIGSTOP)
        return child

    monkeypatch.setattr(Runner, "_fork", fork_and_stop)
    asked = begin(pool, doubles, [1.0, 1.0], replicas=1)

    await until(lambda: pool.look_after({}) or (bool(stopped) and is_gone(stopped[0])))

    assert await asked == [[2.0, 2.0]]


async def test_a_file_that_cannot_be_read_keeps_further_ones_away_and_nothing_else(
    pool: Pool, doubles: Artifact, blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(pool, doubles, [1.0, 1.0], replicas=1)
    with monkeypatch.context() as patched:

        def refuse(_: str) -> None:
            raise FilesUnavailable("the store does not answer", retry_after_s=1)

        patched.setattr(blobs, "open", refuse)
        for _ in range(5):
            assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]
        await asyncio.gather(*pool._tasks)
        assert len(runners(pool, doubles)) == 1

    await until(lambda: pool.look_after({}) or len(pids(pool, doubles)) == 2)


async def test_one_for_which_there_is_no_room_ends_nothing_and_is_started_once_there_is(
    new_pool: NewPool, doubles: Artifact, triples: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.serving.deployment._FILL_AGAIN_S", 0.0)  # each look tries
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 3.5))  # a starting one is taken for twice as large
    await ask(pool, triples, [1.0, 1.0], replicas=1)

    for _ in range(3):
        assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]
        pool.look_after({})
        await asyncio.gather(*pool._tasks)
    assert (len(runners(pool, doubles)), len(runners(pool, triples))) == (1, 1)
    assert pool.figures().evicted == 0
    await pool.release(TENANT, triples.digest)

    await until(lambda: pool.look_after({}) or len(pids(pool, doubles)) == 2)


async def test_a_look_at_models_that_find_no_room_measures_each_runner_once(
    new_pool: NewPool, doubles: Artifact, triples: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not once for each of these models: with some hundred of them, a look would take most of a second."""
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 3.5))  # a starting one is taken for twice as large
    for artifact in (triples, doubles):
        await ask(pool, artifact, [1.0, 1.0], replicas=1)
    for artifact in (triples, doubles):
        await ask(pool, artifact, [1.0, 1.0], replicas=2)
    read, measured = Runner.resident_bytes.fget, list[Runner]()
    assert read is not None

    def measure(runner: Runner) -> int:
        measured.append(runner)
        return int(read(runner))

    monkeypatch.setattr(Runner, "resident_bytes", property(measure))

    for deployment in pool._deployments.values():
        deployment.fill_at = 0.0  # they have been tried a moment ago
    pool.look_after({})

    assert len(measured) == len(set(measured)) == 2


async def test_one_of_several_makes_room_for_another_model_and_the_others_answer(
    new_pool: NewPool, doubles: Artifact, triples: Artifact
) -> None:
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 3.5))  # a starting one is taken for twice as large
    await ask(pool, doubles, [1.0, 1.0])
    before = await has_ready(pool, doubles, 2)

    assert await ask(pool, triples, [1.0, 1.0], replicas=1) == [[3.0, 3.0]]

    after = await has_ready(pool, doubles, 1)
    assert set(after) < set(before)
    assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]
    assert pids(pool, doubles) == after


async def test_one_that_gives_way_while_it_loads_is_tried_again_within_a_second_however_often(
    new_pool: NewPool, doubles: Artifact, triples: Artifact, stopped_starts: StoppedStarts
) -> None:
    """It has not failed: only a start that does is put off longer each time."""
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 3.5))  # a starting one is taken for twice as large
    await ask(pool, doubles, [1.0, 1.0], replicas=1)
    [answering] = await stand_still(pool, doubles, 1)
    asked = begin(pool, doubles, [0.5, 1.0], replicas=2)
    await are_busy(pool, doubles, 1)
    deployment = pool._deployments[TENANT, doubles.digest, THREADS]

    for _ in range(4):
        deployment.fill_at = -math.inf  # the time is over
        with stopped_starts():
            pool.look_after({})
            await until(lambda: len(pids(pool, doubles, RunnerState.STARTING)) == 1)
        assert await ask(pool, triples, [1.0, 1.0], replicas=1) == [[3.0, 3.0]]
        await until(lambda: not deployment.is_filling)

        assert pids(pool, doubles, RunnerState.STARTING) == []
        assert deployment.fill_at <= time.monotonic() + 1
        await pool.release(TENANT, triples.digest)

    send(signal.SIGCONT, answering)
    assert await asked == [[1.0, 2.0]]
    await until(lambda: pool.look_after({}) or len(pids(pool, doubles)) == 2)


@pytest.mark.parametrize("why", ["the options", "another model"])
async def test_the_one_that_answers_stays_before_one_that_loads_in_the_first_place(
    why: str, new_pool: NewPool, doubles: Artifact, triples: Artifact, stopped_starts: StoppedStarts
) -> None:
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 4.5))  # a starting one is taken for twice as large
    await ask(pool, doubles, [1.0, 1.0])
    killed, answering = await has_ready(pool, doubles, 2)

    with stopped_starts():
        os.kill(killed, signal.SIGKILL)
        await until(lambda: pool.look_after({}) or len(pids(pool, doubles, RunnerState.STARTING)) == 1)

    send(signal.SIGSTOP, answering)
    asked = begin(pool, doubles, [0.5, 1.0], replicas=2)
    await are_busy(pool, doubles, 1)
    options = {ModelKey(TENANT, ""): ServingOptions(replicas=1 if why == "the options" else 2)}
    if why == "another model":
        other = asyncio.create_task(ask(pool, triples, [1.0, 1.0], replicas=1))
    await until(lambda: pool.look_after(options) or len(runners(pool, doubles)) == 1)

    assert pids(pool, doubles, RunnerState.BUSY) == [answering]
    send(signal.SIGCONT, answering)
    assert await asked == [[1.0, 2.0]]
    if why == "another model":
        assert await other == [[3.0, 3.0]]
    else:
        await asyncio.gather(*pool._tasks)
        assert pids(pool, doubles) == [answering]


async def test_each_counts_in_the_share_of_its_tenant(new_pool: NewPool, doubles: Artifact) -> None:
    """Alone, a tenant may have four; beside another one, two."""
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 5.5))  # a starting one is taken for twice as large
    await ask(pool, doubles, [1.0, 1.0], replicas=4)
    await has_ready(pool, doubles, 4)

    await ask(pool, doubles, [1.0, 1.0], replicas=2, tenant="theirs")
    await until(lambda: len(runners(pool, doubles)) == 3)
    assert await ask(pool, doubles, [1.0, 1.0], replicas=2, tenant="theirs") == [[2.0, 2.0]]

    assert len(runners(pool, doubles, "theirs")) >= 1
    assert await ask(pool, doubles, [1.0, 1.0], replicas=4) == [[2.0, 2.0]]


@pytest.fixture
async def crowded(new_pool: NewPool, doubles: Artifact, triples: Artifact) -> AsyncIterator[Pool]:
    """A pool in which the other tenant has two runners within its share, and this one has one that does not answer.

    With another one, this tenant is over its share, and there is no room for that.
    """
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 4.5))  # a starting one is taken for twice as large
    await ask(pool, doubles, [1.0, 1.0], tenant=THEIRS)
    await has_ready(pool, doubles, 2, THEIRS)
    await ask(pool, triples, [1.0, 1.0], replicas=1)
    [stopped] = await stand_still(pool, triples, 1)
    asked = begin(pool, triples, [0.5, 1.0], replicas=1)
    await are_busy(pool, triples, 1)
    yield pool
    send(signal.SIGCONT, stopped)
    assert await asked == [[1.5, 3.0]]


async def are_asked(pool: Pool, doubles: Artifact) -> "list[asyncio.Task[list[Any]]]":
    """Ask both of theirs, which do not answer until they go on."""
    await stand_still(pool, doubles, 2, THEIRS)
    asked = [begin(pool, doubles, [float(number), 1.0], tenant=THEIRS) for number in range(2)]
    await are_busy(pool, doubles, 2, THEIRS)
    return asked


async def test_a_first_one_of_a_tenant_over_its_share_takes_the_place_of_an_idle_further_one(
    crowded: Pool, doubles: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which does not come back for that: all that either asks from now on ends nothing."""
    monkeypatch.setattr("service.serving.deployment._FILL_AGAIN_S", 0.0)  # each look tries
    first, _ = pids(crowded, doubles, tenant=THEIRS)

    crowded.refuse_if_full(TENANT, doubles.digest, doubles.archive.byte_size)
    for _ in range(4):
        for tenant, replicas in ((TENANT, 1), (THEIRS, 2)):
            assert await ask(crowded, doubles, [1.0, 1.0], tenant=tenant, replicas=replicas) == [[2.0, 2.0]]
        crowded.look_after({})
        await asyncio.gather(*crowded._tasks)

    assert pids(crowded, doubles, tenant=THEIRS) == [first]
    assert crowded.figures().evicted == 1


async def test_a_further_one_comes_back_once_there_is_room(crowded: Pool, doubles: Artifact) -> None:
    await ask(crowded, doubles, [1.0, 1.0], replicas=1)
    assert len(runners(crowded, doubles, THEIRS)) == 1

    await crowded.release(TENANT, doubles.digest)

    await until(lambda: crowded.look_after({}) or len(pids(crowded, doubles, tenant=THEIRS)) == 2)


async def test_of_two_that_answer_the_idle_one_gives_way(crowded: Pool, doubles: Artifact) -> None:
    asked = await are_asked(crowded, doubles)
    idle, busy = pids(crowded, doubles, RunnerState.BUSY, THEIRS)
    send(signal.SIGCONT, idle)
    assert await asked[0] == [[0.0, 2.0]]

    assert await ask(crowded, doubles, [1.0, 1.0], replicas=1) == [[2.0, 2.0]]

    assert is_gone(idle)
    send(signal.SIGCONT, busy)
    assert await asked[1] == [[2.0, 2.0]]


async def test_a_first_one_takes_no_place_of_those_that_answer_and_nothing_is_counted_for_it(
    crowded: Pool, doubles: Artifact
) -> None:
    asked = await are_asked(crowded, doubles)
    before = pids(crowded, doubles, RunnerState.BUSY, THEIRS)
    one_bytes = runners(crowded, doubles, THEIRS)[0].resident_bytes

    for _ in range(3):
        with pytest.raises(PoolMemoryShort):
            crowded.refuse_if_full(TENANT, doubles.digest, doubles.archive.byte_size)
        with pytest.raises(PoolMemoryShort):
            await ask(crowded, doubles, [1.0, 1.0], replicas=1)
        assert crowded.has_room(THEIRS, one_bytes)

    send(signal.SIGCONT, *before)
    assert await asyncio.gather(*asked) == [[[0.0, 2.0]], [[2.0, 2.0]]]
    assert pids(crowded, doubles, tenant=THEIRS) == before
    assert crowded.figures().evicted == 0


async def test_a_first_one_takes_no_place_of_those_that_are_pinned_within_the_share(
    crowded: Pool, doubles: Artifact
) -> None:
    before = pids(crowded, doubles, tenant=THEIRS)
    crowded.pin([(THEIRS, doubles.digest, THREADS)])

    with pytest.raises(PoolMemoryShort):
        await ask(crowded, doubles, [1.0, 1.0], replicas=1)

    assert pids(crowded, doubles, tenant=THEIRS) == before


async def test_one_that_is_the_last_by_the_time_that_it_is_to_end_stays(
    crowded: Pool, doubles: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, further = runners(crowded, doubles, THEIRS)
    choose, ending = Room.victims, list[asyncio.Task[None]]()

    def choose_and_lose_the_first(room: Room, *args: Any) -> list[Holding] | None:
        chosen = choose(room, *args)
        if chosen and not ending:
            ending.append(asyncio.create_task(first.close()))
        return chosen

    monkeypatch.setattr(Room, "victims", choose_and_lose_the_first)
    assert await ask(crowded, doubles, [1.0, 1.0], replicas=1) == [[2.0, 2.0]]
    await asyncio.gather(*ending)

    assert runners(crowded, doubles, THEIRS) == [further]
    assert crowded.figures().evicted == 0


async def test_all_end_when_nobody_asks_and_none_is_started_for_that(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 1.0])
    before = await has_ready(pool, doubles, 2)

    await end_idle(pool, IDLE_AT_ONCE)

    assert all(is_gone(pid) for pid in before)
    pool.look_after(IDLE_AT_ONCE)
    await asyncio.gather(*pool._tasks)
    assert runners(pool, doubles) == []
    assert pool._deployments == {}
    assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]


async def test_one_that_ends_late_takes_nothing_away_from_those_that_were_started_since(
    new_pool: NewPool, doubles: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of an artifact end, one of them is long about it, and a request has started another by then."""
    pool = new_pool()
    await ask(pool, doubles, [1.0, 1.0])
    await has_ready(pool, doubles, 2)
    late, close, has_ended = runners(pool, doubles)[1], Runner.close, asyncio.Event()

    async def close_late(runner: Runner) -> None:
        await close(runner)
        if runner is late:
            await has_ended.wait()

    monkeypatch.setattr(Runner, "close", close_late)
    idle = {ModelKey(TENANT, ""): ServingOptions(idle_s=1e-9, replicas=2)}
    await until(lambda: pool.look_after(idle) or (pool.runners == {} and pool._deployments == {}))
    assert await ask(pool, doubles, [1.0, 1.0], replicas=1) == [[2.0, 2.0]]
    [started] = pids(pool, doubles)
    has_ended.set()
    await asyncio.gather(*pool._tasks)

    assert pids(pool, doubles) == [started]
    await pool.close(grace_s=0)
    assert is_gone(started)


async def test_none_is_idle_while_one_is_asked(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 1.0])
    stopped = await stand_still(pool, doubles, 2)
    asked = begin(pool, doubles, [0.5, 1.0])
    await are_busy(pool, doubles, 1)

    await end_idle(pool, {ModelKey(TENANT, ""): ServingOptions(idle_s=1e-9, replicas=2)})
    send(signal.SIGCONT, *stopped)

    assert await asked == [[1.0, 2.0]]
    assert await has_ready(pool, doubles, 2) == stopped


async def test_all_of_a_pinned_model_stay(new_pool: NewPool, doubles: Artifact, triples: Artifact) -> None:
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 4.5))  # a starting one is taken for twice as large
    pool.pin([(TENANT, doubles.digest, THREADS)])
    await pool.prepare(TENANT, doubles, doubles.digest, replicas=2)
    before = await has_ready(pool, doubles, 2)
    pool.look_after(IDLE_AT_ONCE | {ModelKey(TENANT, ""): ServingOptions(idle_s=1e-9, replicas=2)})

    for artifact in (triples, doubles, triples):
        assert len(await ask(pool, artifact, [1.0, 1.0], replicas=1, model=artifact.digest)) == 1

    assert pids(pool, doubles) == before


async def test_further_ones_of_a_pinned_model_make_room_for_the_first_of_another_pinned_one(
    new_pool: NewPool, doubles: Artifact, triples: Artifact
) -> None:
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 4.5))  # a starting one is taken for twice as large
    pool.pin([(TENANT, artifact.digest, THREADS) for artifact in (doubles, triples)])
    await pool.prepare(TENANT, doubles, doubles.digest, replicas=4)
    await until(lambda: pool.look_after({}) or len(pids(pool, doubles)) == 3)

    await pool.prepare(TENANT, triples, triples.digest, replicas=4)

    await has_ready(pool, triples, 1)
    assert 1 <= len(pids(pool, doubles)) < 3
    assert await ask(pool, doubles, [1.0, 1.0], replicas=4) == [[2.0, 2.0]]


@pytest.mark.parametrize("way", ["a request", "the options"])
async def test_those_that_are_too_many_end_once_they_have_answered(pool: Pool, doubles: Artifact, way: str) -> None:
    await ask(pool, doubles, [1.0, 1.0], replicas=3)
    stopped = await stand_still(pool, doubles, 3)
    asked = [begin(pool, doubles, [float(number), 1.0], replicas=3) for number in range(3)]
    await are_busy(pool, doubles, 3)

    if way == "a request":
        asked.append(begin(pool, doubles, [3.0, 1.0], replicas=1))
    else:
        pool.look_after({ModelKey(TENANT, ""): ServingOptions(replicas=1)})
    for _ in range(10):
        await asyncio.sleep(0)
    assert not any(is_gone(pid) for pid in stopped)
    send(signal.SIGCONT, *stopped)

    assert await asyncio.gather(*asked) == [[[2.0 * number, 2.0]] for number in range(len(asked))]
    [left] = await has_ready(pool, doubles, 1)
    assert left in stopped
    await until(lambda: sum(is_gone(pid) for pid in stopped) == 2)
    assert await ask(pool, doubles, [1.0, 1.0], replicas=1) == [[2.0, 2.0]]
    assert pids(pool, doubles) == [left]


async def test_of_two_models_with_one_artifact_the_one_that_wants_more_has_it(pool: Pool, doubles: Artifact) -> None:
    for _ in range(3):
        await ask(pool, doubles, [1.0, 1.0], replicas=2, model="more")
        await ask(pool, doubles, [1.0, 1.0], replicas=1, model="less")
    before = await has_ready(pool, doubles, 2)
    both = {ModelKey(TENANT, "more"): ServingOptions(replicas=2), ModelKey(TENANT, "less"): ServingOptions()}
    assert pool.models == both.keys()

    pool.look_after(both)
    await ask(pool, doubles, [1.0, 1.0], replicas=1, model="less")
    assert pids(pool, doubles) == before

    pool.look_after({**both, ModelKey(TENANT, "more"): None})
    await has_ready(pool, doubles, 1)


async def test_unloading_ends_all_once_they_have_answered(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 1.0])
    stopped = await stand_still(pool, doubles, 2)
    asked = begin(pool, doubles, [0.5, 1.0])
    [busy] = await are_busy(pool, doubles, 1)
    released = asyncio.create_task(pool.release(TENANT, doubles.digest))
    [free] = set(stopped) - {busy}

    await until(lambda: is_gone(free))
    pool.look_after({})
    assert not released.done()
    send(signal.SIGCONT, busy)
    await released

    assert await asked == [[1.0, 2.0]]
    assert runners(pool, doubles) == []


async def test_closing_lets_all_answer_that_is_being_computed(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 1.0])
    stopped = await stand_still(pool, doubles, 2)
    asked = [begin(pool, doubles, [float(number), 1.0]) for number in range(4)]
    await are_busy(pool, doubles, 2)
    closed = asyncio.create_task(pool.close(grace_s=PATIENCE_S))
    await asyncio.sleep(0)
    send(signal.SIGCONT, *stopped)
    await closed

    assert await asyncio.gather(*asked) == [[[2.0 * number, 2.0]] for number in range(4)]
    assert all(is_gone(pid) for pid in stopped)


async def test_what_is_submitted_goes_to_all_of_them(pool: Pool, counts: Artifact) -> None:
    """The way that asks without waiting, as long as one of them answers."""
    await ask(pool, counts, 1)
    killed, _ = await has_ready(pool, counts, 2)
    os.kill(killed, signal.SIGKILL)
    await until(lambda: is_gone(killed))
    answers: list[Any] = []
    for number in range(6):
        deployment = pool.find_ready(TENANT, counts.digest)
        assert deployment is not None
        call = PendingCall("forward", inputs(counts, 10**4 + number), answers.append, SEED)
        pool.submit(deployment, call, replicas=2)

    await until(lambda: len(answers) == 6)
    assert sorted(values(answer) for answer in answers) == [[10.0**4 + number] for number in range(6)]
    await has_ready(pool, counts, 2)


def values(answer: list[Tensor] | Exception) -> list[float]:
    assert isinstance(answer, list), answer
    return list(unpack(answer[0].datatype, answer[0].data))


async def test_runners_come_and_go_in_any_order_and_each_request_has_its_answer(
    new_pool: NewPool, doubles: Artifact, triples: Artifact
) -> None:
    """Killed, unloaded, more of them or fewer, and other models that take their memory."""
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_pool(memory_max_bytes=int(one_bytes * 4.5), waiting_max=100)
    answered = 0

    async def ask_on(factor: float, artifact: Artifact, steps: int) -> None:
        nonlocal answered
        for number in range(steps):
            replicas = 1 + number // 10 % 3
            assert await ask(pool, artifact, [float(number), 1.0], replicas=replicas) == [[factor * number, factor]]
            answered += 1

    async def disturb(kill: Callable[[int], None]) -> None:
        for number in range(12):
            before = answered
            await until(lambda before=before: answered > before + 3 or answered >= 240)
            for pid in pids(pool, doubles)[:1]:
                kill(pid)
            if number % 4 == 3:
                await pool.release(TENANT, doubles.digest)
            pool.look_after({ModelKey(TENANT, ""): ServingOptions(replicas=1 + number % 3)})

    await asyncio.gather(
        *(ask_on(2.0, doubles, 60) for _ in range(3)),
        ask_on(3.0, triples, 60),
        disturb(lambda pid: os.kill(pid, signal.SIGKILL)),
    )

    assert answered == 240
