"""The pool on real runners: killed, stopped, crowded, hostile."""

import asyncio
import gc
import os
import signal
import struct
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from service.api import inference_json
from service.api.inference_json import Expected
from service.domain.errors import FilesUnavailable, PoolMemoryShort, PoolSaturated, ShuttingDown
from service.domain.serving_options import ModelKey, ServingOptions
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from service.serving.lookup import Lookup
from service.serving.pending_call import Answer, CallLeft, Group, Joining, PendingCall
from service.serving.pool import Pool
from service.serving.runner import RunnerState
from service.storage.blobs import Blobs
from tests.conftest import PATIENCE_S, keep, parent_of
from tests.service.serving.conftest import Scale
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract
from tracehouse.errors import AnswerTooLarge, GoldenCaseFailed, GraphRaised, InferenceTimeout, RunnerLost
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype, Tensor, unpack

pytestmark = pytest.mark.anyio

NewPool = Callable[..., Pool]


class Pick(torch.nn.Module):
    """Raises on an index that the table does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.table[index]


class Counts(torch.nn.Module):
    """Takes as long as it is told to."""

    def forward(self, times: torch.Tensor) -> torch.Tensor:
        return count(times)


@torch.jit.script
def count(times: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(1)
    for _ in range(int(times)):
        total = total + 1
    return total


FOR_AGES = 10**12
TENANT = "ours"
THREADS = 1  # those of the pool
SEED = 0


def inputs(artifact: Artifact, *args: Any) -> list[Tensor]:
    contract = artifact.contract.method("forward")
    return contract.accept(inference_json.read({"args": list(args)}, Expected.of([contract])).tensors).tensors


async def ask(pool: Pool, artifact: Artifact, *args: Any, tenant: str = TENANT) -> list[Any]:
    """The values of every output, for the arguments of `forward` as JSON."""
    outputs = await pool.infer(tenant, artifact, artifact.digest, "forward", inputs(artifact, *args), seed=SEED)
    return [unpack(tensor.datatype, tensor.data) for tensor in outputs]


def pid_of(pool: Pool, artifact: Artifact, tenant: str = TENANT) -> int:
    pid = pool.runners[tenant, artifact.digest, THREADS].pid
    assert pid is not None
    return pid


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not happened():  # noqa: ASYNC110 - it is another process's state
            await asyncio.sleep(0.005)


async def busy_pid(pool: Pool, artifact: Artifact, *others: int) -> int:
    """The artifact's runner once it computes, unless it is one of the others."""
    await until(
        lambda: (
            (TENANT, artifact.digest, THREADS) in pool.runners
            and pool.runners[TENANT, artifact.digest, THREADS].state is RunnerState.BUSY
            and pid_of(pool, artifact) not in others
        )
    )
    return pid_of(pool, artifact)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def test_starts_that_wait_for_files_keep_no_look_up_waiting(
    pool: Pool, doubles: Artifact, blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = threading.Event()

    def wait(_: str) -> None:
        given_up.wait()
        raise FilesUnavailable("the store does not answer", retry_after_s=1)

    monkeypatch.setattr(blobs, "open", wait)
    starts = [asyncio.create_task(ask(pool, doubles, [1.0, 2.0], tenant=f"tenant {number}")) for number in range(40)]
    await until(lambda: len(pool.runners) == 40)
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await Lookup(lambda: "found", most=1).ask() == "found"
    finally:
        given_up.set()

    assert [type(one) for one in await asyncio.gather(*starts, return_exceptions=True)] == [FilesUnavailable] * 40


async def test_each_artifact_answers_for_itself(pool: Pool, doubles: Artifact, triples: Artifact) -> None:
    assert await ask(pool, doubles, [1.0, 2.0]) == [[2.0, 4.0]]
    assert await ask(pool, triples, [1.0, 2.0]) == [[3.0, 6.0]]
    assert await ask(pool, doubles, [-1.0, 0.5]) == [[-2.0, 1.0]]


async def test_an_answer_does_not_wait_for_the_garbage_collector(pool: Pool, doubles: Artifact) -> None:
    """The collector counts objects: a few large answers in circles of objects would stay for a long time."""

    def kept() -> int:
        return sum(type(each) is Tensor and each.data == answer for each in gc.get_objects())

    answer = struct.pack("<2f", 2.5, 5.0)
    await ask(pool, doubles, [1.0, 2.0])
    gc.collect()
    gc.disable()
    try:
        assert await ask(pool, doubles, [1.25, 2.5]) == [[2.5, 5.0]]
        submitted, called = pool.find_ready(TENANT, doubles.digest), asyncio.Event()
        assert submitted is not None
        pool.submit(submitted, PendingCall("forward", inputs(doubles, [1.25, 2.5]), lambda _: called.set()))
        await called.wait()
        await asyncio.sleep(0)  # what has called is gone
        assert kept() == 0
    finally:
        gc.enable()


async def test_a_runner_is_of_one_tenant(pool: Pool, doubles: Artifact) -> None:
    for tenant in ("ours", "theirs", "ours"):
        await pool.infer(tenant, doubles, doubles.digest, "forward", inputs(doubles, [1.0, 2.0]), seed=SEED)

    pids = {tenant: runner.pid for (tenant, *_), runner in pool.runners.items()}
    assert pids.keys() == {"ours", "theirs"}
    assert pids["ours"] != pids["theirs"]


class Echo(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


VALUES: dict[Datatype, list[Any]] = {
    Datatype.BOOL: [True, False],
    Datatype.UINT8: [0, 2**8 - 1],
    Datatype.UINT16: [0, 2**16 - 1],
    Datatype.UINT32: [0, 2**32 - 1],
    Datatype.UINT64: [0, 2**64 - 1],
    Datatype.INT8: [-(2**7), 2**7 - 1],
    Datatype.INT16: [-(2**15), 2**15 - 1],
    Datatype.INT32: [-(2**31), 2**31 - 1],
    Datatype.INT64: [-(2**63), 2**63 - 1],
    Datatype.FP16: [0.5, "NaN"],
    Datatype.BF16: [-0.5, "Infinity"],
    Datatype.FP32: [2.0**-100, "-Infinity"],
    Datatype.FP64: [1e-300, "NaN"],
}


class EchoAll(torch.nn.Module):
    def forward(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in tensors.items()}


async def test_every_datatype_goes_through_unchanged(pool: Pool, trace, blobs: Blobs) -> None:
    from tracehouse.torch_values.tensors import DTYPES

    example = {datatype.value: torch.zeros(2, dtype=dtype) for datatype, dtype in DTYPES.items()}
    artifact = trace(blobs, EchoAll(), example)
    sent = {datatype.value: values for datatype, values in VALUES.items()}
    answered = await ask(pool, artifact, sent)
    names = [spec.name.removeprefix("output.") for spec in artifact.contract.method("forward").outputs]
    assert dict(zip(names, answered, strict=True)) == sent


async def test_an_empty_tensor_goes_through(pool: Pool, trace, blobs: Blobs) -> None:
    artifact = trace(blobs, Echo(), torch.zeros(2, 0))
    assert await ask(pool, artifact, [[], []]) == [[]]


class Nested(torch.nn.Module):
    def forward(self, pair, batch, times: int):
        first, (second,) = pair
        return {"größe": first * times}, (second, [first + batch["ids"]])


async def test_arguments_and_outputs_nest_and_numbers_are_baked(pool: Pool, trace, blobs: Blobs) -> None:
    one = torch.ones(1)
    artifact = trace(blobs, Nested(), (one, [one * 2]), {"ids": one * 3, "kept": "as is"}, 5)
    assert [spec.name for spec in artifact.contract.method("forward").outputs] == [
        "output.0.größe",
        "output.1.0",
        "output.1.1.0",
    ]
    assert await ask(pool, artifact, [[1.0], [[2.0]]], {"ids": [3.0]}) == [[5.0], [2.0], [4.0]]


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Conv1d(1, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
        torch.nn.init.uniform_(self.layers[1].running_var, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@pytest.mark.parametrize("form", ["freeze", "optimize_for_inference"])
async def test_the_form_that_is_served_answers_as_the_traced_one(pool: Pool, trace, blobs: Blobs, form: str) -> None:
    traced = trace(blobs, Normed(), torch.randn(1, 1, 8))
    served = traced.model_copy(update={form: True})
    x = [[[0.5, -1.0, 2.0, 0.0, 3.0, -2.5, 1.0, 1.5]]]
    assert (await ask(pool, served, x))[0] == pytest.approx((await ask(pool, traced, x))[0], abs=1e-6)
    assert pid_of(pool, served) != pid_of(pool, traced)


class Tells(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.training else x * 3


async def test_optimize_for_inference_makes_what_is_served(pool: Pool, trace, blobs: Blobs) -> None:
    """It goes into eval mode, in whichever mode the archive was saved."""
    in_train_mode = keep(blobs, torch.jit.script(Tells().train()).save_to_buffer())
    traced = trace(blobs, Tells(), torch.ones(1))
    served = traced.model_copy(update={"archive": in_train_mode, "optimize_for_inference": True})

    assert await ask(pool, served, [1.0]) == [[3.0]]


@pytest.mark.parametrize("form", ["freeze", "optimize_for_inference"])
async def test_a_form_in_a_lower_precision_is_served(pool: Pool, trace, blobs: Blobs, form: str) -> None:
    traced = trace(blobs, Normed().bfloat16(), torch.randn(1, 1, 8).bfloat16())
    served = traced.model_copy(update={form: True})
    x = [[[0.5, -1.0, 2.0, 0.0, 3.0, -2.5, 1.0, 1.5]]]

    assert (await ask(pool, served, x))[0] == pytest.approx((await ask(pool, traced, x))[0], abs=0.05)


async def test_what_the_artifact_raises_is_told_and_costs_no_runner(pool: Pool, trace, blobs: Blobs) -> None:
    artifact = trace(blobs, Pick(), torch.tensor([1]))
    assert await ask(pool, artifact, [3]) == [[3.0]]
    before = pid_of(pool, artifact)
    with pytest.raises(GraphRaised, match="index 7 is out of bounds"):
        await ask(pool, artifact, [7])
    assert await ask(pool, artifact, [2]) == [[2.0]]
    assert pid_of(pool, artifact) == before


class Allocates(torch.nn.Module):
    def forward(self, count: torch.Tensor) -> torch.Tensor:
        return allocate(count)


@torch.jit.script
def allocate(count: torch.Tensor) -> torch.Tensor:
    return torch.zeros(int(count)).sum()


async def test_an_artifact_that_asks_for_too_much_memory_costs_no_runner(pool: Pool, trace, blobs: Blobs) -> None:
    artifact = trace(blobs, Allocates(), torch.tensor(1))
    assert await ask(pool, artifact, 2) == [[0.0]]
    before = pid_of(pool, artifact)
    with pytest.raises(GraphRaised, match="allocate memory"):
        await ask(pool, artifact, 2**40)
    assert await ask(pool, artifact, 3) == [[0.0]]
    assert pid_of(pool, artifact) == before


async def test_concurrent_first_requests_start_one_runner(pool: Pool, doubles: Artifact, caplog) -> None:
    caplog.set_level("INFO")
    answers = await asyncio.gather(*(ask(pool, doubles, [float(n), 0.0]) for n in range(8)))
    assert answers == [[[2.0 * n, 0.0]] for n in range(8)]
    assert [record.message for record in caplog.records].count("runner ready") == 1


async def test_a_runner_can_be_had_ready_and_ended(pool: Pool, doubles: Artifact) -> None:
    await pool.prepare("ours", doubles, "digest")
    assert list(pool.runners) == [("ours", "digest", THREADS)]
    await pool.release("ours", "digest")
    assert pool.runners == {}
    assert pool._deployments == {}
    await pool.release("ours", "digest")  # there is none


# Of a model that the tests give no name.
IDLE_AT_ONCE = {ModelKey(TENANT, ""): ServingOptions(idle_s=1e-9)}


async def end_idle(pool: Pool, options: dict[ModelKey, ServingOptions]) -> None:
    """Return when those that are idle have ended."""
    pool.look_after(options)
    await asyncio.gather(*pool._tasks)


async def test_an_idle_runner_ends_and_nothing_is_left_of_it(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 2.0])
    pid = pid_of(pool, doubles)

    await end_idle(pool, {ModelKey("theirs", ""): ServingOptions(idle_s=1e-9)})
    await end_idle(pool, {ModelKey(TENANT, ""): ServingOptions(idle_s=3600.0)})
    assert await ask(pool, doubles, [1.0, 2.0]) == [[2.0, 4.0]]
    assert pid_of(pool, doubles) == pid
    pool.look_after(IDLE_AT_ONCE)

    await until(lambda: pool.runners == {} and is_gone(pid))
    await until(lambda: pool._deployments == {})


async def test_a_model_may_never_be_ended_for_idleness_where_others_are(new_pool: NewPool, doubles: Artifact) -> None:
    pool = new_pool(idle_s=1e-9)
    await ask(pool, doubles, [1.0, 2.0])
    pid = pid_of(pool, doubles)

    await end_idle(pool, {ModelKey(TENANT, ""): ServingOptions(idle_s=0.0)})
    await ask(pool, doubles, [1.0, 2.0])
    assert pid_of(pool, doubles) == pid
    pool.look_after({})

    await until(lambda: is_gone(pid))


async def test_a_runner_that_computes_is_not_idle(pool: Pool, trace, blobs: Blobs) -> None:
    artifact = trace(blobs, Counts(), torch.tensor(1))
    asked = asyncio.create_task(ask(pool, artifact, 10**6))
    pid = await busy_pid(pool, artifact)

    pool.look_after(IDLE_AT_ONCE)

    assert await asked == [[10.0**6]]
    assert pid_of(pool, artifact) == pid


@pytest.mark.parametrize("turns", range(6))
async def test_a_request_that_comes_when_an_idle_runner_ends_is_answered(
    pool: Pool, trace, blobs: Blobs, turns: int
) -> None:
    """Whether it comes before the runner is ended, while it ends, or when it has ended, and by either way."""
    artifact = trace(blobs, Pick(), torch.tensor([0, 1]))
    for _ in range(5):
        await ask_at_once(pool, artifact, one_row(0))
        pool.look_after(IDLE_AT_ONCE)
        for _ in range(turns):
            await asyncio.sleep(0)

        submitted: list[Answer] = []
        deployment = pool.find_ready(TENANT, artifact.digest)
        if deployment is not None:
            pool.submit(deployment, pending(3, finish=submitted.append))
        answers, _ = await ask_at_once(pool, artifact, one_row(1), one_row(2))

        assert answers == [[1.0], [2.0]]
        assert [type(one) for one in submitted] == [list] * (deployment is not None)


async def test_an_artifact_that_cannot_be_loaded_is_held_back_when_it_is_prepared(
    pool: Pool, doubles: Artifact
) -> None:
    damaged = doubles.model_copy(update={"archive": doubles.golden})
    with pytest.raises(RunnerLost) as held:
        await pool.prepare("ours", damaged, "damaged")
    assert held.value.facts["held_back"]


async def test_more_than_may_wait_are_refused_at_once(new_pool: NewPool, doubles: Artifact) -> None:
    pool = new_pool(waiting_max=2)
    await ask(pool, doubles, [0.0, 0.0])
    os.kill(pid_of(pool, doubles), signal.SIGSTOP)
    admitted = [asyncio.create_task(ask(pool, doubles, [float(n), 0.0])) for n in range(3)]
    await busy_pid(pool, doubles)
    with pytest.raises(PoolSaturated) as refused:
        await ask(pool, doubles, [9.0, 9.0])
    assert refused.value.facts["waiting_max"] == 2
    os.kill(pid_of(pool, doubles), signal.SIGCONT)
    assert await asyncio.gather(*admitted) == [[[2.0 * n, 0.0]] for n in range(3)]


async def test_a_caller_that_leaves_does_not_leave_its_answer_to_the_next(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [0.0, 0.0])
    pid = pid_of(pool, doubles)
    os.kill(pid, signal.SIGSTOP)
    leaves = asyncio.create_task(ask(pool, doubles, [1.0, 1.0]))
    await busy_pid(pool, doubles)
    leaves.cancel()
    stays = asyncio.create_task(ask(pool, doubles, [5.0, 5.0]))
    await asyncio.wait([leaves])
    os.kill(pid, signal.SIGCONT)
    assert await stays == [[10.0, 10.0]]
    assert leaves.cancelled()
    assert pid_of(pool, doubles) == pid


async def test_a_caller_that_leaves_while_the_runner_starts_leaves_the_runner(
    pool: Pool, doubles: Artifact, caplog
) -> None:
    caplog.set_level("INFO")
    first = asyncio.create_task(ask(pool, doubles, [1.0, 1.0]))
    await until(lambda: (TENANT, doubles.digest, THREADS) in pool.runners)
    first.cancel()
    assert await ask(pool, doubles, [2.0, 2.0]) == [[4.0, 4.0]]
    assert [record.message for record in caplog.records].count("runner ready") == 1


async def test_a_runner_that_died_in_between_is_replaced(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 2.0])
    died = pid_of(pool, doubles)
    os.kill(died, signal.SIGKILL)
    assert await ask(pool, doubles, [1.0, 2.0]) == [[2.0, 4.0]]
    assert pid_of(pool, doubles) != died


async def test_requests_of_a_runner_that_dies_are_answered_by_the_next(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [0.0, 0.0])
    died = pid_of(pool, doubles)
    os.kill(died, signal.SIGSTOP)
    asked = [asyncio.create_task(ask(pool, doubles, [float(n), 0.0])) for n in range(4)]
    await busy_pid(pool, doubles)
    os.kill(died, signal.SIGKILL)
    assert await asyncio.gather(*asked) == [[[2.0 * n, 0.0]] for n in range(4)]
    assert pool.figures().lost == 1


async def test_an_artifact_that_ends_two_runners_in_a_row_is_held_back(new_pool: NewPool, trace, blobs: Blobs) -> None:
    pool = new_pool(hold_s=0.5)
    artifact = trace(blobs, Counts(), torch.tensor(1))
    asked = asyncio.create_task(ask(pool, artifact, FOR_AGES))
    waiting = asyncio.create_task(ask(pool, artifact, 1))
    first = await busy_pid(pool, artifact)
    os.kill(first, signal.SIGKILL)
    os.kill(await busy_pid(pool, artifact, first), signal.SIGKILL)
    for refused in (asked, waiting, asyncio.create_task(ask(pool, artifact, 1))):
        with pytest.raises(RunnerLost) as lost:
            await refused
        assert (lost.value.facts["held_back"], lost.value.facts["retry_after_s"]) == (True, 1)
        assert "signal 9" in lost.value.detail
    assert pool.runners == {}

    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                assert await ask(pool, artifact, 3) == [[3.0]]
                break
            except RunnerLost:
                await asyncio.sleep(0.02)


async def test_a_runner_that_takes_too_long_is_killed_and_replaced(new_pool: NewPool, doubles: Artifact) -> None:
    pool = new_pool(infer_timeout_s=0.3)
    await ask(pool, doubles, [0.0, 0.0])
    stopped = pid_of(pool, doubles)
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(InferenceTimeout) as late:
        await ask(pool, doubles, [1.0, 1.0])
    assert late.value.facts["limit_s"] == 0.3
    assert is_gone(stopped)
    assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]
    assert pool.figures().lost == 1


async def test_a_runner_that_does_not_load_in_time_is_killed(new_pool: NewPool, doubles: Artifact) -> None:
    pool = new_pool(load_timeout_s=0.0)
    with pytest.raises(RunnerLost, match="did not load within 0 s"):
        await ask(pool, doubles, [1.0, 1.0])
    assert pool.runners == {}


async def test_runners_that_die_with_their_zygote_are_not_held_against_the_artifact(
    new_pool: NewPool, trace, blobs: Blobs, tier: Tier
) -> None:
    artifact = trace(blobs, Counts(), torch.tensor(1))
    with Zygote(["workers.programs.runner"], tier=tier, path=[Path(__file__).parent / "light"]) as zygote:
        pool = new_pool(zygote)
        asked = asyncio.create_task(ask(pool, artifact, FOR_AGES))
        first = await busy_pid(pool, artifact)
        os.kill(parent_of(first), signal.SIGKILL)
        os.kill(parent_of(await busy_pid(pool, artifact, first)), signal.SIGKILL)
        with pytest.raises(RunnerLost, match="forked from") as lost:
            await asked
        assert "held_back" not in lost.value.facts
        assert await ask(pool, artifact, 2) == [[2.0]]
        await pool.close(grace_s=0)


async def test_an_artifact_that_no_longer_gives_its_golden_answers_is_not_served(
    pool: Pool, doubles: Artifact, triples: Artifact
) -> None:
    tampered = doubles.model_copy(update={"archive": triples.archive})
    for _ in range(2):
        with pytest.raises(GoldenCaseFailed) as refused:
            await ask(pool, tampered, [1.0, 1.0])
        assert refused.value.facts["held_back"]
        assert refused.value.facts["largest_difference"] == 1.0
    assert pool.runners == {}
    figures = pool.figures()
    assert (figures.refuted, figures.lost, figures.held_back) == (1, 1, 1)


async def test_a_rejected_artifact_that_is_served_all_the_same_may_differ(
    pool: Pool, doubles: Artifact, triples: Artifact
) -> None:
    check = doubles.check.model_copy(update={"verdict": Verdict.REJECTED})
    rejected = doubles.model_copy(update={"archive": triples.archive, "check": check})
    assert await ask(pool, rejected, [1.0, 1.0]) == [[3.0, 3.0]]


@pytest.mark.parametrize(("file", "code"), [("archive", "runner-lost"), ("golden", "golden-case-failed")])
async def test_files_that_cannot_be_read_are_told_of(
    pool: Pool, doubles: Artifact, blobs: Blobs, file: str, code: str
) -> None:
    with blobs.stage() as staged:
        staged.write(b"PK\x03\x04" + bytes(1000))
        garbage = doubles.model_copy(update={file: staged.commit()})
    with pytest.raises(RunnerLost) as refused:
        await ask(pool, garbage, [1.0, 1.0])
    assert refused.value.slug() == code
    assert refused.value.facts["held_back"]


async def test_an_answer_that_does_not_fit_the_contract_is_never_given(pool: Pool, doubles: Artifact) -> None:
    method = doubles.contract.method("forward")
    promised = method.outputs[0].model_copy(update={"datatype": Datatype.FP64})
    contract = Contract(methods={"forward": method.model_copy(update={"outputs": [promised]})})
    with pytest.raises(RunnerLost, match="does not fit"):
        await ask(pool, doubles.model_copy(update={"contract": contract}), [1.0, 1.0])


async def test_the_least_recently_used_runner_makes_room(
    new_pool: NewPool, doubles, triples, trace, blobs: Blobs
) -> None:
    halves = trace(blobs, Scale(0.5), torch.ones(2))
    roomy = new_pool()
    await ask(roomy, doubles, [1.0, 1.0])
    one_bytes = roomy.runners[TENANT, doubles.digest, THREADS].resident_bytes

    pool = new_pool(memory_max_bytes=int(one_bytes * 3.5))  # a starting one is taken for twice as large
    for artifact in (doubles, triples, doubles):
        await ask(pool, artifact, [1.0, 1.0])
    assert set(pool.runners) == {(TENANT, doubles.digest, THREADS), (TENANT, triples.digest, THREADS)}
    evicted = pid_of(pool, triples)
    assert await ask(pool, halves, [1.0, 1.0]) == [[0.5, 0.5]]
    assert set(pool.runners) == {(TENANT, doubles.digest, THREADS), (TENANT, halves.digest, THREADS)}
    assert is_gone(evicted)
    assert await ask(pool, triples, [1.0, 1.0]) == [[3.0, 3.0]]


async def test_a_pinned_runner_stays_and_those_of_its_tenant_that_are_not_make_room(
    new_pool: NewPool, doubles, triples, trace, blobs: Blobs
) -> None:
    halves = trace(blobs, Scale(0.5), torch.ones(2))
    roomy = new_pool()
    await ask(roomy, doubles, [1.0, 1.0])
    one_bytes = roomy.runners[TENANT, doubles.digest, THREADS].resident_bytes
    pool = new_pool(memory_max_bytes=int(one_bytes * 3.5))  # a starting one is taken for twice as large
    pool.pin([(TENANT, doubles.digest, THREADS)])

    for artifact in (doubles, triples, halves, triples):
        assert len(await ask(pool, artifact, [1.0, 1.0])) == 1
    assert set(pool.runners) == {(TENANT, doubles.digest, THREADS), (TENANT, triples.digest, THREADS)}
    pid = pid_of(pool, doubles)
    pool.pin([(TENANT, doubles.digest, THREADS), (TENANT, triples.digest, THREADS)])
    with pytest.raises(PoolMemoryShort, match="of which pinned models take") as refused:
        await ask(pool, halves, [1.0, 1.0])

    assert refused.value.facts["retry_after_s"] >= 1
    assert pid_of(pool, doubles) == pid
    pool.pin([])
    assert await ask(pool, halves, [1.0, 1.0]) == [[0.5, 0.5]]
    assert is_gone(pid)


async def test_what_a_tenant_pins_beyond_its_share_makes_room_for_others(
    new_pool: NewPool, doubles, triples, trace, blobs: Blobs
) -> None:
    """Alone, it may pin three; beside another tenant, two."""
    artifacts = [doubles, triples, trace(blobs, Scale(0.5), torch.ones(2))]
    roomy = new_pool()
    await ask(roomy, doubles, [1.0, 1.0])
    one_bytes = roomy.runners[TENANT, doubles.digest, THREADS].resident_bytes
    pool = new_pool(memory_max_bytes=int(one_bytes * 4.5))  # a starting one is taken for twice as large
    pool.pin([(TENANT, artifact.digest, THREADS) for artifact in artifacts])
    for artifact in artifacts:
        await ask(pool, artifact, [1.0, 1.0])
    assert len(pool.runners) == 3

    assert await ask(pool, doubles, [1.0, 1.0], tenant="theirs") == [[2.0, 2.0]]

    [gone] = [artifact for artifact in artifacts if (TENANT, artifact.digest, THREADS) not in pool.runners]
    assert len(pool.runners) == 3
    assert not pool.would_stay((TENANT, gone.digest, THREADS), gone.archive.byte_size)
    assert await ask(pool, triples, [1.0, 1.0], tenant="theirs") == [[3.0, 3.0]]
    assert Counter(tenant for tenant, *_ in pool.runners) == {TENANT: 2, "theirs": 1}


async def test_a_pinned_runner_is_not_ended_for_idleness(pool: Pool, doubles: Artifact) -> None:
    await ask(pool, doubles, [1.0, 2.0])
    pid = pid_of(pool, doubles)
    pool.pin([(TENANT, doubles.digest, THREADS)])

    await end_idle(pool, IDLE_AT_ONCE)
    assert await ask(pool, doubles, [1.0, 2.0]) == [[2.0, 4.0]]
    assert pid_of(pool, doubles) == pid
    pool.pin([])
    pool.look_after(IDLE_AT_ONCE)

    await until(lambda: is_gone(pid))


class Wide(torch.nn.Module):
    """Has all threads compute."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(1_000_000).sum() * 0.0


def count_threads(pid: int | None) -> int:
    """How many threads the process has: torch makes them when they first compute."""
    return len(os.listdir(f"/proc/{pid}/task"))


async def test_a_model_has_the_threads_that_it_asks_for_and_a_runner_of_its_own_with_them(
    new_pool: NewPool, trace, blobs: Blobs
) -> None:
    pool = new_pool(threads_max=3)
    artifact = trace(blobs, Wide(), torch.zeros(1))
    for threads in (None, 2, 1, 3, 2):
        asked = inputs(artifact, [10.0])
        await pool.infer(TENANT, artifact, artifact.digest, "forward", asked, seed=SEED, threads=threads)

    counts = {threads: count_threads(runner.pid) for (*_, threads), runner in pool.runners.items()}
    assert {threads: count - counts[1] for threads, count in counts.items()} == {1: 0, 2: 1, 3: 2}
    wanted = [ServingOptions(threads=threads) for threads in (None, 1, 3, 4, 1024)]
    assert [pool.threads(TENANT, artifact.digest, options) for options in wanted] == [1, 1, 3, 3, 3]
    await pool.release(TENANT, artifact.digest, 2)
    assert {threads for *_, threads in pool.runners} == {1, 3}


async def test_a_runner_whose_model_is_to_have_other_threads_ends_when_it_has_answered(
    pool: Pool, trace, blobs: Blobs
) -> None:
    artifact = trace(blobs, Counts(), torch.tensor(1))
    asked = asyncio.create_task(ask(pool, artifact, 10**6))
    pid = await busy_pid(pool, artifact)

    changed = {ModelKey(TENANT, ""): ServingOptions(threads=2, idle_s=0.0)}
    pool.look_after(changed)
    assert await asked == [[10.0**6]]
    assert pid_of(pool, artifact) == pid
    pool.look_after(changed)

    await until(lambda: pool.runners == {} and is_gone(pid))


class Lodges:
    """Has a part of the memory until it has to give way."""

    resident_bytes = 64 * 2**20

    def give_way(self) -> None:
        self.resident_bytes = 0


async def test_a_process_beside_the_runners_counts_and_is_the_first_to_go(
    new_pool: NewPool, doubles: Artifact, triples: Artifact
) -> None:
    roomy, lodger = new_pool(), Lodges()
    await ask(roomy, doubles, [1.0, 1.0])
    one_bytes = roomy.runners[TENANT, doubles.digest, THREADS].resident_bytes
    pool = new_pool(memory_max_bytes=int(one_bytes * 3.5) + lodger.resident_bytes)
    pool.share_memory(lodger)

    await ask(pool, doubles, [1.0, 1.0])
    assert pool.figures().lodger_bytes == 64 * 2**20
    assert pool.has_room(TENANT, one_bytes)
    assert not pool.has_room(TENANT, one_bytes * 3)
    await ask(pool, triples, [1.0, 1.0])
    assert lodger.resident_bytes > 0
    kept = pid_of(pool, doubles)
    lodger.resident_bytes *= 2
    await pool.release(TENANT, triples.digest)
    await ask(pool, triples, [1.0, 1.0])

    assert lodger.resident_bytes == 0
    assert pid_of(pool, doubles) == kept


async def test_a_process_beside_the_runners_keeps_no_pinned_runner_from_starting(
    new_pool: NewPool, doubles: Artifact
) -> None:
    lodger = Lodges()
    pool = new_pool(memory_max_bytes=lodger.resident_bytes)
    pool.share_memory(lodger)

    assert pool.would_stay((TENANT, doubles.digest, THREADS), doubles.archive.byte_size)
    assert not pool.would_stay((TENANT, "sha256:larger", THREADS), lodger.resident_bytes)


async def test_a_busy_runner_is_never_evicted(new_pool: NewPool, doubles: Artifact, trace, blobs: Blobs) -> None:
    pool = new_pool(memory_max_bytes=1)
    busy = trace(blobs, Counts(), torch.tensor(1))
    asked = asyncio.create_task(ask(pool, busy, FOR_AGES))
    await busy_pid(pool, busy)
    with pytest.raises(PoolMemoryShort) as refused:
        await ask(pool, doubles, [1.0, 1.0])
    assert 1 <= refused.value.facts["retry_after_s"] <= PATIENCE_S  # the answer's limit
    assert not asked.done()
    await pool.close(grace_s=0)
    with pytest.raises(ShuttingDown):
        await asked


class Hoards(torch.nn.Module):
    """Takes a number of MiB, keeps them and then computes for as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.nn.Buffer(torch.zeros(1))

    def forward(self, mib: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        return hoard(self.kept, mib, times)


@torch.jit.script
def hoard(kept: torch.Tensor, mib: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    kept.set_(torch.ones([int(mib) * 1024 * 256]))
    total = torch.zeros(1)
    for _ in range(int(times)):
        total = total + 1
    return total


MEMORY_BYTES = 200 * 2**20  # two tenants have 100 MiB each; a runner of a small model takes 16 to 32 MiB
TOO_MUCH_MIB = 300


@pytest.fixture
def hoards(trace, blobs: Blobs) -> Artifact:
    return trace(blobs, Hoards(), torch.tensor(0), torch.tensor(1))


async def hoarding(pool: Pool, hoards: Artifact) -> "asyncio.Task[list[Any]]":
    """A request of another tenant, once its runner takes more than the whole pool has."""
    asked = asyncio.create_task(ask(pool, hoards, TOO_MUCH_MIB, FOR_AGES, tenant="theirs"))
    await until(lambda: asked.done() or any(runner.resident_bytes > MEMORY_BYTES for runner in pool.runners.values()))
    assert not asked.done(), asked.exception()
    return asked


async def test_a_tenant_whose_runner_grows_and_who_starts_another_costs_only_itself(
    new_pool: NewPool, hoards: Artifact, doubles: Artifact, triples: Artifact
) -> None:
    pool = new_pool(memory_max_bytes=MEMORY_BYTES)
    await ask(pool, doubles, [1.0, 1.0])
    ours = pid_of(pool, doubles)
    asked = await hoarding(pool, hoards)

    for _ in range(2):
        with pytest.raises(PoolMemoryShort) as refused:
            await ask(pool, triples, [1.0, 1.0], tenant="theirs")
        assert 1 <= refused.value.facts["retry_after_s"] <= PATIENCE_S  # the limit of its own answer
        assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]
    assert pid_of(pool, doubles) == ours
    assert not asked.done()


async def test_a_tenant_within_its_share_is_answered_and_what_has_grown_goes_at_once(
    new_pool: NewPool, hoards: Artifact, doubles: Artifact, triples: Artifact
) -> None:
    pool = new_pool(memory_max_bytes=MEMORY_BYTES)
    await ask(pool, doubles, [1.0, 1.0])
    asked = await hoarding(pool, hoards)

    assert await ask(pool, triples, [1.0, 1.0]) == [[3.0, 3.0]]
    with pytest.raises(PoolMemoryShort) as ended:
        await asked
    with pytest.raises(PoolMemoryShort) as refused:
        await ask(pool, hoards, 0, 1, tenant="theirs")
    assert set(pool.runners) == {(TENANT, doubles.digest, THREADS), (TENANT, triples.digest, THREADS)}
    for error in (ended.value, refused.value):
        assert error.facts["needed_bytes"] > MEMORY_BYTES
        assert error.facts["share_bytes"] == MEMORY_BYTES // 2
        assert error.facts["retry_after_s"] > 9 * PATIENCE_S  # we have our share until then


async def test_a_refused_tenant_is_answered_once_the_time_that_it_was_told_is_over(
    new_pool: NewPool, hoards: Artifact, doubles: Artifact
) -> None:
    pool = new_pool(memory_max_bytes=MEMORY_BYTES, share_s=2.0)
    asked = await hoarding(pool, hoards)
    assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]
    with pytest.raises(PoolMemoryShort):
        await asked
    with pytest.raises(PoolMemoryShort) as refused:
        await ask(pool, hoards, 0, 1, tenant="theirs")
    assert refused.value.facts["retry_after_s"] in (1, 2)

    await asyncio.sleep(refused.value.facts["retry_after_s"])

    assert await ask(pool, hoards, 0, 1, tenant="theirs") == [[1.0]]


async def test_a_tenant_within_its_share_waits_for_the_answer_of_one_that_is_not(
    new_pool: NewPool, doubles: Artifact, triples: Artifact, trace, blobs: Blobs
) -> None:
    halves = trace(blobs, Scale(0.5), torch.ones(2))
    # As much as two that start: a tenant with all three, or with two larger ones, has more than its share.
    pool = new_pool(memory_max_bytes=2 * (halves.archive.byte_size + 32 * 2**20))
    for artifact in (doubles, triples, halves):
        await ask(pool, artifact, [1.0, 1.0], tenant="theirs")
    living = [
        artifact for artifact in (doubles, triples, halves) if ("theirs", artifact.digest, THREADS) in pool.runners
    ]
    pids = [pid_of(pool, artifact, "theirs") for artifact in living]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    answering = [asyncio.create_task(ask(pool, artifact, [1.0, 1.0], tenant="theirs")) for artifact in living]
    await until(lambda: all(runner.state is RunnerState.BUSY for runner in pool.runners.values()))

    asked = asyncio.create_task(ask(pool, halves, [1.0, 1.0]))
    await until(lambda: asked.done() or RunnerState.DRAINING in {runner.state for runner in pool.runners.values()})
    assert not asked.done()
    for pid in pids:
        os.kill(pid, signal.SIGCONT)

    factors = {doubles.digest: 2.0, triples.digest: 3.0, halves.digest: 0.5}
    assert await asyncio.gather(*answering) == [[[factors[artifact.digest]] * 2] for artifact in living]
    assert await asked == [[0.5, 0.5]]
    assert any(map(is_gone, pids))


async def test_what_only_loads_goes_before_an_answer_does(
    new_pool: NewPool, doubles: Artifact, triples: Artifact, trace, blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves = trace(blobs, Scale(0.5), torch.ones(2))
    pool = new_pool(memory_max_bytes=2 * (halves.archive.byte_size + 32 * 2**20))
    await ask(pool, doubles, [1.0, 1.0], tenant="theirs")
    answers = pid_of(pool, doubles, "theirs")
    os.kill(answers, signal.SIGSTOP)
    answering = asyncio.create_task(ask(pool, doubles, [1.0, 1.0], tenant="theirs"))
    arrived = threading.Event()
    open_blob = blobs.open

    def open_late(digest: str) -> Any:
        assert digest != triples.archive.digest or arrived.wait(PATIENCE_S)
        return open_blob(digest)

    monkeypatch.setattr(blobs, "open", open_late)
    loading = asyncio.create_task(ask(pool, triples, [1.0, 1.0], tenant="theirs"))
    await until(lambda: ("theirs", triples.digest, THREADS) in pool.runners)

    assert await ask(pool, halves, [1.0, 1.0]) == [[0.5, 0.5]]

    arrived.set()
    with pytest.raises(PoolMemoryShort):
        await loading
    os.kill(answers, signal.SIGCONT)
    assert await answering == [[2.0, 2.0]]
    assert pid_of(pool, doubles, "theirs") == answers


async def test_what_has_grown_past_the_pool_goes_after_its_answer(
    new_pool: NewPool, hoards: Artifact, doubles: Artifact
) -> None:
    pool = new_pool(memory_max_bytes=MEMORY_BYTES)
    await ask(pool, hoards, 0, 1, tenant="theirs")
    await ask(pool, doubles, [1.0, 1.0])
    grown = pid_of(pool, hoards, "theirs")

    assert await ask(pool, hoards, TOO_MUCH_MIB, 1, tenant="theirs") == [[1.0]]

    assert is_gone(grown)
    assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]


async def test_what_has_grown_past_the_pool_and_is_alone_stays(new_pool: NewPool, hoards: Artifact) -> None:
    pool = new_pool(memory_max_bytes=MEMORY_BYTES)
    await ask(pool, hoards, TOO_MUCH_MIB, 1)
    grown = pid_of(pool, hoards)

    assert await ask(pool, hoards, TOO_MUCH_MIB, 1) == [[1.0]]
    assert pid_of(pool, hoards) == grown


async def test_closing_lets_what_runs_finish_and_leaves_no_process(new_pool: NewPool, doubles: Artifact) -> None:
    pool = new_pool()
    await ask(pool, doubles, [0.0, 0.0])
    pid = pid_of(pool, doubles)
    os.kill(pid, signal.SIGSTOP)
    asked = [asyncio.create_task(ask(pool, doubles, [float(n), 0.0])) for n in range(3)]
    await busy_pid(pool, doubles)
    closing = asyncio.create_task(pool.close(grace_s=20))
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown):
        await ask(pool, doubles, [1.0, 1.0])
    os.kill(pid, signal.SIGCONT)
    assert await asyncio.gather(*asked) == [[[2.0 * n, 0.0]] for n in range(3)]
    await closing
    assert is_gone(pid)


async def test_closing_kills_what_does_not_finish(new_pool: NewPool, doubles: Artifact, trace, blobs: Blobs) -> None:
    pool = new_pool()
    slow = trace(blobs, Counts(), torch.tensor(1))
    asked = [asyncio.create_task(ask(pool, slow, FOR_AGES)) for _ in range(2)]
    pid = await busy_pid(pool, slow)
    starting = asyncio.create_task(ask(pool, doubles, [1.0, 1.0]))
    await until(lambda: (TENANT, doubles.digest, THREADS) in pool.runners)
    await pool.close(grace_s=0)
    for refused in (*asked, starting):
        with pytest.raises(ShuttingDown):
            await refused
    assert is_gone(pid)
    assert pool.runners == {}


async def test_runners_that_come_and_go_leave_no_descriptors(pool: Pool, doubles: Artifact) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    await ask(pool, doubles, [1.0, 1.0])
    before = descriptors()
    for _ in range(5):
        os.kill(pid_of(pool, doubles), signal.SIGKILL)
        assert await ask(pool, doubles, [1.0, 1.0]) == [[2.0, 2.0]]
    await until(lambda: descriptors() <= before)


class Repeats(torch.nn.Module):
    """Answers with as many numbers as it is told to."""

    def forward(self, times: torch.Tensor) -> torch.Tensor:
        return repeat(times)


@torch.jit.script
def repeat(times: torch.Tensor) -> torch.Tensor:
    return torch.zeros(1).expand([int(times)])


async def test_an_answer_that_is_too_large_is_refused_and_costs_no_runner(
    new_pool: NewPool, trace, blobs: Blobs
) -> None:
    artifact = trace(blobs, Repeats(), torch.tensor(3))
    pool = new_pool(answer_max_bytes=1000)
    assert await ask(pool, artifact, 250) == [[0.0] * 250]
    runner = pid_of(pool, artifact)

    with pytest.raises(AnswerTooLarge) as raised:
        await ask(pool, artifact, 251)

    assert raised.value.facts["limit"] == 1000
    assert await ask(pool, artifact, 250) == [[0.0] * 250]
    assert pid_of(pool, artifact) == runner


def one_row(*values: int) -> list[Tensor]:
    return [Tensor("index", Datatype.INT64, (len(values),), struct.pack(f"<{len(values)}q", *values))]


def joinable(rows: int) -> Joining:
    return Joining("all alike", rows, takes=lambda total: total <= 8)


async def ask_at_once(
    pool: Pool, artifact: Artifact, *asked: list[Tensor], row_counts: Sequence[int] = ()
) -> tuple[list[Any], int]:
    """The values or the error of each, and how many calls that took."""
    calls = []

    async def ask(inputs: list[Tensor]) -> list[Any]:
        outputs = await pool.infer(
            TENANT, artifact, artifact.digest, "forward", inputs, seed=None,
            on_turn=calls.append, joining=joinable(inputs[0].shape[0]), row_counts=row_counts,
        )  # fmt: skip
        return unpack(outputs[0].datatype, outputs[0].data)

    return await asyncio.gather(*map(ask, asked), return_exceptions=True), sum(calls)


async def test_calls_that_may_be_joined_are_asked_as_one(pool: Pool, trace, blobs: Blobs) -> None:
    artifact = trace(blobs, Pick(), torch.tensor([0, 1]))
    await ask_at_once(pool, artifact, one_row(0))

    answers, calls = await ask_at_once(pool, artifact, *(one_row(number % 4) for number in range(6)), one_row(1, 2, 3))

    assert answers == [*([float(number % 4)] for number in range(6)), [1.0, 2.0, 3.0]]
    assert calls == 2


class CountsRows(Pick):
    """Says in each answer with how many rows it was called, ten for each."""

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.table[index] + 10 * index.shape[0]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ([[1]], [[21.0]]),
        ([[1], [2], [3]], [[41.0], [42.0], [43.0]]),
        ([[1, 2, 3], [0, 1, 2]], [[81.0, 82.0, 83.0], [80.0, 81.0, 82.0]]),
        ([[0] * 9], [[90.0] * 9]),  # more than any of the counts: it shares its call with nobody
    ],
)
async def test_a_call_is_filled_up_to_a_number_of_rows_that_it_may_have(
    pool: Pool, trace, blobs: Blobs, asked: list[list[int]], answered: list[list[float]]
) -> None:
    artifact = trace(blobs, CountsRows(), torch.tensor([0, 1]))
    await ask_at_once(pool, artifact, one_row(0))

    answers, calls = await ask_at_once(pool, artifact, *(one_row(*one) for one in asked), row_counts=(2, 4, 8))

    assert (answers, calls) == (answered, 1)


async def test_who_is_asked_again_alone_is_filled_up_as_well(pool: Pool, trace, blobs: Blobs) -> None:
    """Else the bytes of an answer would depend on whether another request raised."""
    artifact = trace(blobs, CountsRows(), torch.tensor([0, 1]))
    await ask_at_once(pool, artifact, one_row(0))

    answers, calls = await ask_at_once(pool, artifact, one_row(1), one_row(9), one_row(2), row_counts=(2, 4, 8))

    assert calls == 1
    assert (answers[0], answers[2]) == ([21.0], [22.0])
    assert isinstance(answers[1], GraphRaised)


async def test_a_call_that_raises_costs_those_that_it_was_joined_with_nothing(pool: Pool, trace, blobs: Blobs) -> None:
    artifact = trace(blobs, Pick(), torch.tensor([0, 1]))
    await ask_at_once(pool, artifact, one_row(0))

    answers, calls = await ask_at_once(pool, artifact, one_row(1), one_row(9), one_row(3, 2))

    assert (answers[0], answers[2]) == ([1.0], [3.0, 2.0])
    assert isinstance(answers[1], GraphRaised)
    assert calls == 1


async def test_each_may_be_as_large_as_it_may_be_alone_whatever_it_is_joined_with(
    new_pool: NewPool, trace, blobs: Blobs
) -> None:
    artifact = trace(blobs, Pick(), torch.tensor([0, 1]))
    pool = new_pool(answer_max_bytes=12)
    await ask_at_once(pool, artifact, one_row(0))

    answers, calls = await ask_at_once(pool, artifact, one_row(1, 2, 3), one_row(0), one_row(3, 2))

    assert (answers, calls) == ([[1.0, 2.0, 3.0], [0.0], [3.0, 2.0]], 1)


async def test_an_answer_without_rows_is_asked_for_alone(pool: Pool, trace, blobs: Blobs) -> None:
    """The certificate says that there are rows; the artifact decides."""

    class Sums(torch.nn.Module):
        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return index.sum()

    artifact = trace(blobs, Sums(), torch.tensor([0, 1]))
    await ask_at_once(pool, artifact, one_row(0))

    answers, _ = await ask_at_once(pool, artifact, one_row(1), one_row(2, 3))

    assert answers == [[1], [5]]


async def test_joined_calls_of_a_runner_that_dies_are_answered_by_the_next(pool: Pool, trace, blobs: Blobs) -> None:
    artifact = trace(blobs, Pick(), torch.tensor([0, 1]))
    await ask_at_once(pool, artifact, one_row(0))
    died = pid_of(pool, artifact)
    os.kill(died, signal.SIGSTOP)
    asked = asyncio.create_task(ask_at_once(pool, artifact, *(one_row(number) for number in range(4))))
    await busy_pid(pool, artifact)
    os.kill(died, signal.SIGKILL)

    answers, _ = await asked
    assert answers == [[0.0], [1.0], [2.0], [3.0]]


def pending(*values: int, finish: Callable[[Answer], object], method: str = "forward") -> PendingCall:
    return PendingCall(method, one_row(*values), finish, joining=joinable(len(values)))


async def test_calls_of_different_methods_are_not_joined() -> None:
    group = Group(pending(1, finish=print, method="encode"))

    assert not group.join(pending(2, finish=print, method="decode"))
    assert group.join(pending(3, finish=print, method="encode"))


async def test_calls_that_have_lost_a_runner_are_asked_alone() -> None:
    lost, other = pending(1, finish=print), pending(2, finish=print)
    lost.has_lost_a_runner = True

    assert not Group(other).join(lost)
    assert not Group(lost).join(other)


async def test_an_artifact_that_changes_its_inputs_answers_each_request_as_if_alone(
    pool: Pool, trace, blobs: Blobs
) -> None:
    class Shifts(torch.nn.Module):
        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return torch.arange(10.0)[index.add_(1)]

    artifact = trace(blobs, Shifts(), torch.tensor([0, 1]), verdict=Verdict.REJECTED)
    await ask_at_once(pool, artifact, one_row(0))

    answers, calls = await ask_at_once(pool, artifact, one_row(1), one_row(99), one_row(3, 2))

    assert (answers[0], answers[2]) == ([2.0], [4.0, 3.0])
    assert isinstance(answers[1], GraphRaised)
    assert calls == 1


async def test_an_artifact_that_returns_a_buffer_of_its_own_answers_each_request(
    pool: Pool, trace, blobs: Blobs
) -> None:
    class Keeps(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(1))

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return self.kept.copy_(index.sum().to(torch.float32))

    artifact = trace(blobs, Keeps(), torch.tensor([0, 1]))
    await ask_at_once(pool, artifact, one_row(0))

    answers, _ = await ask_at_once(pool, artifact, one_row(1), one_row(2), one_row(3))

    assert answers == [[1.0], [2.0], [3.0]]


async def test_calls_whose_callers_have_left_make_room(new_pool: NewPool, trace, blobs: Blobs) -> None:
    pool = new_pool(waiting_max=2)
    artifact = trace(blobs, Pick(), torch.tensor([0, 1]))
    await ask_at_once(pool, artifact, one_row(0))
    deployment = pool.find_ready(TENANT, artifact.digest)
    assert deployment is not None
    os.kill(pid_of(pool, artifact), signal.SIGSTOP)
    ended: list[Answer] = []
    first = pending(1, finish=ended.append)
    pool.submit(deployment, first)
    await busy_pid(pool, artifact)
    for _ in range(20):
        call = pending(2, finish=ended.append)
        pool.submit(deployment, call)
        call.leave()

    assert [type(one) for one in ended] == [CallLeft] * 20
    assert pool.find_ready(TENANT, artifact.digest) is deployment
    os.kill(pid_of(pool, artifact), signal.SIGCONT)
    await until(lambda: len(ended) == 21)


async def test_a_runner_that_ends_before_it_is_asked_is_replaced(
    pool: Pool, doubles: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready_runner, ended = pool._ready_runner, []

    async def ends_once(*place: Any) -> Any:
        runner = await ready_runner(*place)
        if not ended:
            ended.append(runner)
            await runner.close()
        return runner

    monkeypatch.setattr(pool, "_ready_runner", ends_once)

    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*(ask(pool, doubles, [float(number), 0.0]) for number in range(3)))
    assert answers == [[[2.0 * number, 0.0]] for number in range(3)]


async def test_an_answer_that_cannot_be_handed_out_costs_the_others_nothing(pool: Pool, trace, blobs: Blobs) -> None:
    artifact = trace(blobs, Pick(), torch.tensor([0, 1]))
    await ask_at_once(pool, artifact, one_row(0))
    deployment = pool.find_ready(TENANT, artifact.digest)
    assert deployment is not None
    ended: list[Answer] = []

    def fail(_: Answer) -> None:
        raise OSError("the connection is gone")

    pool.submit(deployment, pending(1, finish=fail))
    pool.submit(deployment, pending(2, finish=ended.append))
    await until(lambda: bool(ended))

    answers, _ = await ask_at_once(pool, artifact, one_row(3))
    assert not isinstance(ended[0], Exception)
    assert answers == [[3.0]]
