"""Runners that nobody has asked for by a number: they come with a load that needs them, and go for whatever needs more.

How long the looks are apart, what was answered meanwhile and how idle the processors were is what each test says.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from service.domain.replica_count import Look
from service.domain.serving_options import ModelKey, ServingOptions
from service.sandbox.zygote import Zygote
from service.serving.deployment import Deployment, Deployments
from service.serving.pool import Pool
from service.serving.pool_memory import PoolMemory
from service.serving.replica_changes import ReplicaChanges, measure_load
from service.serving.runner import RunnerState
from service.storage.blobs import Blobs
from tests.conftest import PATIENCE_S
from tests.pool_limits import pool_limits
from tests.service.serving.conftest import StoppedStarts
from tests.service.serving.test_pool import FOR_AGES, TENANT, THREADS, Counts, NewPool, until
from tests.service.serving.test_replicas import (
    THEIRS,
    are_busy,
    ask,
    begin,
    has_ready,
    one_runner_bytes,
    runners,
    send,
    stand_still,
)
from tracehouse.artifact.manifest import Artifact

pytestmark = pytest.mark.anyio

UNSET = ServingOptions()
OURS = {ModelKey(TENANT, ""): UNSET}
NOT_YET = "more are tried once requests wait for it while processors are idle, if there is memory"


def each_answers(number: int) -> int:
    return 100 * number


def they_answer_no_more(_: int) -> int:
    return 100


@dataclass
class Machine:
    """Two looks are a second apart. `idle` processors had nothing to do, and so many runners gave so many `answers`."""

    idle: float = 4.0
    answers: Callable[[int], int] = each_answers
    now: float = 0.0

    def clock(self) -> float:
        self.now += 1.0
        return self.now

    def idle_s(self) -> float:
        return self.idle * self.now

    def measure(self, deployment: Deployment, elapsed_s: float) -> Look:
        """How many runners there are is as it is. As long as one is asked, all compute, and more waits.

        Whether a second one has already answered what waited would hang on how busy this machine is.
        """
        look, is_asked = measure_load(deployment, elapsed_s), deployment.pending > 0
        busy = look.ready if is_asked else 0
        return replace(look, answers=self.answers(busy), busy_s=busy * elapsed_s, waits=is_asked)

    def changes(self, processors: int = 4) -> ReplicaChanges:
        return ReplicaChanges(processors, self.idle_s, measure=self.measure, clock=self.clock)


@pytest.fixture
def machine() -> Machine:
    return Machine()


NewMeasured = Callable[..., Pool]


@pytest.fixture
async def new_measured(torch_zygote: Zygote, blobs: Blobs, machine: Machine) -> AsyncIterator[NewMeasured]:
    """Pools that go by the load; closed when the test ends."""
    pools = []

    def new_measured(changes: ReplicaChanges | None = None, **limits: Any) -> Pool:
        changes = changes or machine.changes()
        pools.append(Pool(torch_zygote, blobs, pool_limits(**limits), replica_changes=changes))
        return pools[-1]

    yield new_measured
    for pool in pools:
        await pool.close(grace_s=0)


@pytest.fixture
def counts(trace, blobs: Blobs) -> Artifact:
    return trace(blobs, Counts(), torch.tensor(1))


def explained(pool: Pool, artifact: Artifact, options: ServingOptions = UNSET) -> tuple[int, str]:
    return pool.explain_replicas(TENANT, artifact.digest, options, THREADS)


def look(pool: Pool, times: int = 1, options: ServingOptions = UNSET) -> None:
    for _ in range(times):
        pool.look_after({ModelKey(TENANT, ""): options})


async def wait_in_line(pool: Pool, artifact: Artifact, *args: Any, callers: int = 4) -> "list[asyncio.Task[list[Any]]]":
    """Have so many ask for what takes for ever: one is asked, and the others wait."""
    await ask(pool, artifact, *args, replicas=None)
    await stand_still(pool, artifact, 1)
    asked = [begin(pool, artifact, *args, replicas=None) for _ in range(callers)]
    await are_busy(pool, artifact, 1)
    return asked


async def has_two(pool: Pool, artifact: Artifact, tenant: str = TENANT) -> None:
    """Look until two runners answer, the trial of which has an end."""
    await until(lambda: look(pool) or len(runners(pool, artifact, tenant)) == 2)
    two = runners(pool, artifact, tenant)
    await until(lambda: all(one.state in (RunnerState.READY, RunnerState.BUSY) for one in two))
    look(pool, 5)


async def end(*asked: "asyncio.Task[list[Any]]") -> None:
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_a_second_one_answers_once_requests_wait_for_the_first(
    new_measured: NewMeasured, counts: Artifact
) -> None:
    pool = new_measured()
    assert pool.replicas(None) is None
    assert explained(pool, counts) == (1, NOT_YET)
    asked = [begin(pool, counts, FOR_AGES, replicas=None) for _ in range(3)]
    await are_busy(pool, counts, 1)

    await until(lambda: look(pool) or len(runners(pool, counts)) == 2)

    assert len(set(await are_busy(pool, counts, 2))) == 2  # the second one was asked what waited
    look(pool, 5)
    assert explained(pool, counts) == (2, "2 processes answered 2.00 times as many requests as 1")
    await end(*asked)


async def test_two_that_answer_no_more_than_one_are_one_again(
    new_measured: NewMeasured, machine: Machine, doubles: Artifact
) -> None:
    machine.answers = they_answer_no_more
    pool = new_measured()
    asked = await wait_in_line(pool, doubles, [1.0, 1.0])

    await has_two(pool, doubles)

    assert explained(pool, doubles) == (1, "2 processes answered only 1.00 times as many requests as 1")
    send(signal.SIGCONT, *[one.pid for one in runners(pool, doubles) if one.pid is not None])
    assert await asyncio.gather(*asked) == [[[2.0, 2.0]]] * 4
    await has_ready(pool, doubles, 1)
    await ask(pool, doubles, [1.0, 1.0], replicas=None)
    assert len(runners(pool, doubles)) == 1


async def test_they_are_one_again_when_nobody_asks(new_measured: NewMeasured, doubles: Artifact) -> None:
    pool = new_measured()
    asked = await wait_in_line(pool, doubles, [1.0, 1.0])
    await has_two(pool, doubles)
    send(signal.SIGCONT, *[one.pid for one in runners(pool, doubles) if one.pid is not None])
    assert await asyncio.gather(*asked) == [[[2.0, 2.0]]] * 4
    assert len(await has_ready(pool, doubles, 2)) == 2

    look(pool, 130)

    await has_ready(pool, doubles, 1)
    assert explained(pool, doubles) == (1, "for 60 s, fewer requests came than 2 processes are for")
    assert await ask(pool, doubles, [1.0, 1.0], replicas=None) == [[2.0, 2.0]]


async def test_a_model_that_was_forgotten_begins_with_one(new_measured: NewMeasured, doubles: Artifact) -> None:
    pool = new_measured()
    asked = await wait_in_line(pool, doubles, [1.0, 1.0])
    await has_two(pool, doubles)
    send(signal.SIGCONT, *[one.pid for one in runners(pool, doubles) if one.pid is not None])
    await asyncio.gather(*asked)
    await has_ready(pool, doubles, 2)

    await pool.release(TENANT, doubles.digest)

    assert explained(pool, doubles) == (1, NOT_YET)
    await ask(pool, doubles, [1.0, 1.0], replicas=None)
    await has_ready(pool, doubles, 1)


@pytest.mark.parametrize(("replicas", "count"), [(1, 1), (2, 2), (9, 4)])
async def test_a_number_that_is_set_holds_whatever_the_load_is(
    new_measured: NewMeasured, doubles: Artifact, replicas: int, count: int
) -> None:
    pool, options = new_measured(), ServingOptions(replicas=replicas)
    asked = await wait_in_line(pool, doubles, [1.0, 1.0])
    await has_two(pool, doubles)
    send(signal.SIGCONT, *[one.pid for one in runners(pool, doubles) if one.pid is not None])
    await asyncio.gather(*asked)
    await has_ready(pool, doubles, 2)

    await until(lambda: look(pool, 20, options) or len(runners(pool, doubles)) == count)
    await has_ready(pool, doubles, count)

    asked = [begin(pool, doubles, [1.0, 1.0], replicas=pool.replicas(replicas)) for _ in range(3)]
    look(pool, 20, options)
    await asyncio.gather(*asked)
    await has_ready(pool, doubles, count)
    why = "the model's option `replicas`" + (", and there are no more processors" if replicas > 4 else "")
    assert explained(pool, doubles, options) == (count, why)
    if replicas < 4:
        assert explained(pool, doubles) == (count, "another model of the same artifact has the option `replicas`")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"idle": 0.4}, NOT_YET),
        ({"processors": 1}, "there are no processors for more: a process computes with 1, and the service may use 1"),
    ],
    ids=str,
)
async def test_one_answers_where_no_processor_is_idle(
    new_measured: NewMeasured, machine: Machine, doubles: Artifact, changes: dict[str, Any], why: str
) -> None:
    machine.idle = changes.get("idle", machine.idle)
    pool = new_measured(machine.changes(changes.get("processors", 4)))
    asked = await wait_in_line(pool, doubles, [1.0, 1.0])

    look(pool, 50)

    assert len(runners(pool, doubles)) == 1
    assert explained(pool, doubles) == (1, why)
    await end(*asked)


async def test_none_is_started_for_which_there_is_no_memory(
    new_pool: NewPool, new_measured: NewMeasured, doubles: Artifact, triples: Artifact
) -> None:
    """Nothing else ends for it, and it comes once there is memory."""
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_measured(memory_max_bytes=int(one_bytes * 3.5))  # a starting one is taken for twice as large
    await ask(pool, triples, [1.0, 1.0], replicas=None)
    asked = await wait_in_line(pool, doubles, [1.0, 1.0])

    look(pool, 50)

    assert (len(runners(pool, doubles)), len(runners(pool, triples))) == (1, 1)
    assert explained(pool, doubles) == (1, NOT_YET)
    await pool.release(TENANT, triples.digest)
    await has_two(pool, doubles)
    await end(*asked)


@pytest.mark.parametrize(("tenant", "is_pinned"), [(THEIRS, False), (THEIRS, True), (TENANT, True)])
async def test_the_first_runner_of_another_model_ends_one(
    new_pool: NewPool, new_measured: NewMeasured, doubles: Artifact, triples: Artifact, tenant: str, is_pinned: bool
) -> None:
    """Also of a pinned model, within its tenant's share: nobody has said that it needs two."""
    one_bytes = await one_runner_bytes(new_pool, doubles)
    pool = new_measured(memory_max_bytes=int(one_bytes * 3.5))  # a starting one is taken for twice as large
    if is_pinned:
        pool.pin([(TENANT, doubles.digest, THREADS)])
    asked = await wait_in_line(pool, doubles, [1.0, 1.0])
    await has_two(pool, doubles)
    send(signal.SIGCONT, *[one.pid for one in runners(pool, doubles) if one.pid is not None])
    await asyncio.gather(*asked)
    await has_ready(pool, doubles, 2)

    assert await ask(pool, triples, [1.0, 1.0], replicas=None, tenant=tenant) == [[3.0, 3.0]]

    await has_ready(pool, doubles, 1)
    assert await ask(pool, doubles, [1.0, 1.0], replicas=None) == [[2.0, 2.0]]


async def test_one_that_does_not_get_ready_takes_nothing_from_the_other(
    new_measured: NewMeasured, counts: Artifact, stopped_starts: StoppedStarts
) -> None:
    pool = new_measured()
    await ask(pool, counts, 1, replicas=None)
    asked = [begin(pool, counts, FOR_AGES, replicas=None) for _ in range(2)]
    [pid] = await are_busy(pool, counts, 1)
    with stopped_starts():
        await until(lambda: look(pool) or len(runners(pool, counts)) == 2)
        look(pool, 20)
        await until(lambda: look(pool) or explained(pool, counts)[0] == 1)

    assert explained(pool, counts) == (1, "2 processes were to be tried, and no more could be started")
    await until(lambda: [one.pid for one in runners(pool, counts)] == [pid])
    await end(*asked)


async def test_a_load_that_one_cannot_keep_up_with_is_seen_by_itself(
    new_measured: NewMeasured, machine: Machine, counts: Artifact
) -> None:
    """With what the pool itself counts, on the real clock."""
    pool = new_measured(ReplicaChanges(4, lambda: 1e6 * machine.clock()))
    stop, answered, seen = False, 0, 0

    async def ask_on() -> None:
        nonlocal answered
        while not stop:
            assert await ask(pool, counts, 1_000, replicas=None) == [[1_000.0]]
            answered += 1

    def look_at_some() -> None:
        """Once four more were answered, however long that takes."""
        nonlocal seen
        if answered >= seen + 4:
            seen = answered
            look(pool)

    callers = [asyncio.create_task(ask_on()) for _ in range(4)]

    await until(lambda: look_at_some() or len(runners(pool, counts)) > 1)

    stop = True
    await asyncio.gather(*callers)


async def test_without_measuring_the_number_of_the_service_holds(new_pool: NewPool, doubles: Artifact) -> None:
    pool = new_pool(replicas=2)
    assert pool.replicas(None) == 2

    await ask(pool, doubles, [1.0, 1.0], replicas=pool.replicas(None))

    await has_ready(pool, doubles, 2)
    assert explained(pool, doubles) == (2, "RUNNER_REPLICAS")
    assert explained(new_pool(replicas=9), doubles) == (4, "RUNNER_REPLICAS, and there are no more processors")


class Crowd:
    """Deployments without processes, one for each of these tenants and numbers; all of them wait all the time."""

    def __init__(self, artifact: Artifact, machine: Machine, *tenants: str, processors: int = 4) -> None:
        self.machine = machine
        self.deployments = [
            Deployment(tenant, artifact, str(number), THREADS, wanted={"": None})
            for number, tenant in enumerate(tenants)
        ]
        self.memory = PoolMemory(Deployments(), 2**40, 60.0, PATIENCE_S)
        self.waits = dict.fromkeys(tenants, True)
        self.changes = ReplicaChanges(processors, machine.idle_s, measure=self.measure, clock=machine.clock)

    def measure(self, deployment: Deployment, elapsed_s: float) -> Look:
        count, waits = deployment.measured.count, self.waits[deployment.tenant]
        answers = self.machine.answers(count)
        return Look(elapsed_s, answers=answers, busy_s=count * elapsed_s * waits, waits=waits, ready=count)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.changes.look_after(self.deployments, self.memory)

    def count(self, tenant: str = "") -> list[int]:
        return [one.measured.count for one in self.deployments if tenant in ("", one.tenant)]

    @property
    def tried(self) -> list[str]:
        return [one.tenant for one in self.deployments if one.measured.is_trying]


def test_all_models_together_have_no_more_further_ones_than_there_are_processors(
    doubles: Artifact, machine: Machine
) -> None:
    crowd = Crowd(doubles, machine, *(["hostile"] * 20))
    for _ in range(200):
        crowd.look()
        assert sum(count - 1 for count in crowd.count()) <= 4
        assert max(crowd.count()) <= 4
    assert sum(count - 1 for count in crowd.count()) == 4


def test_one_trial_goes_on_at_a_time_and_the_tenants_take_turns(doubles: Artifact, machine: Machine) -> None:
    machine.answers = they_answer_no_more
    crowd, order = Crowd(doubles, machine, "hostile", "hostile", "hostile", "ours"), []
    for _ in range(60):
        crowd.look()
        assert len(crowd.tried) <= 1
        if crowd.tried and crowd.tried != order[-1:]:
            order += crowd.tried

    assert order[:3] == ["hostile", "ours", "hostile"]
    assert crowd.count() == [1] * 4


def test_busy_processors_are_given_back_to_a_tenant_who_has_less(doubles: Artifact, machine: Machine) -> None:
    crowd = Crowd(doubles, machine, "hostile", "ours")
    crowd.waits["ours"] = False
    crowd.look(40)
    assert crowd.count("hostile") == [4]

    machine.now, machine.idle = 0.0, 0.0
    crowd.changes.look_after([], crowd.memory)
    crowd.look(40)
    assert crowd.count("hostile") == [4]  # nobody else waits
    crowd.waits["ours"] = True
    crowd.look(40)

    assert crowd.count() == [1, 1]


def test_a_tenant_who_has_less_is_not_in_the_way_of_who_has_more(doubles: Artifact, machine: Machine) -> None:
    crowd = Crowd(doubles, machine, *(["hostile"] * 9), "ours")
    crowd.waits["hostile"] = False
    crowd.look(40)
    assert crowd.count("ours") == [4]

    machine.now, machine.idle = 0.0, 0.0
    crowd.changes.look_after([], crowd.memory)
    crowd.waits["hostile"] = True
    crowd.look(40)

    assert crowd.count("ours") == [4]


def test_where_nobody_can_say_how_idle_the_processors_are_none_is_tried(doubles: Artifact, machine: Machine) -> None:
    crowd = Crowd(doubles, machine, "ours")
    crowd.changes = ReplicaChanges(4, lambda: None, measure=crowd.measure, clock=machine.clock)

    crowd.look(50)

    assert crowd.count() == [1]


def test_what_a_gpu_answers_is_not_measured(doubles: Artifact, machine: Machine) -> None:
    crowd = Crowd(doubles.model_copy(update={"device": "cuda"}), machine, "ours")

    crowd.look(50)

    assert crowd.count() == [1]
    why = "idle processors do not say what cuda has to spare"
    assert crowd.changes.explain(crowd.deployments[0], THREADS) == (1, why)
