"""Whose answers are checked next, what is dropped, and what is kept. The models in Python are stood in for: what they
say is what a test says. tests/workers/test_live_check.py has the real ones."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from service.domain.live_check import LiveCall, LiveCheck, LiveDifference, LiveOutcome, LiveResult
from service.domain.outcome import Succeeded
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import TraceRequest
from service.serving.live_check import LiveChecker, LiveCheckLimits
from service.storage.database import Store
from tests.conftest import PATIENCE_S, TENANT, counted_bytes, make_artifact
from tracehouse.contract.structure import TensorLeaf
from tracehouse.differential.comparison import Difference
from tracehouse.spec.trace_spec import TraceSpec
from tracehouse.tensors.tensor import Datatype, Tensor

pytestmark = pytest.mark.anyio

EQUAL = LiveOutcome(LiveResult.EQUAL)
# Nothing that a test waits for hangs on these.
AT_ONCE = {"stored_every_s": 0.0, "different_every_s": 0.0}

Judge = Callable[[LiveCall], LiveOutcome]
HasRoom = Callable[[str, int], bool]


class Said:
    """Twins whose outcomes `judge` says. While `gate` is closed, nothing is said."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.gate = threading.Event()
        self.gate.set()
        self.turns: list[list[LiveCall]] = []
        self.begun = threading.Event()
        self.ends = 0
        self.lives = False
        self.resident_bytes = 0

    def check(self, calls: Sequence[LiveCall]) -> list[LiveOutcome]:
        self.turns.append([*calls])
        self.begun.set()
        assert self.gate.wait(PATIENCE_S)
        return [self.judge(call) for call in calls]

    def has(self, *_: str) -> bool:
        return self.lives

    def end(self) -> None:
        self.ends += 1

    def give_way(self) -> None:
        self.lives = False

    def stop(self) -> None:
        self.gate.set()


class Checked:
    def __init__(
        self, store: Store, judge: Judge, quotas: Quotas, has_room: HasRoom = lambda *_: True, **limits: Any
    ) -> None:
        self.twins = Said(judge)
        self.store = store
        bounds = LiveCheckLimits(share=1.0, **(AT_ONCE | limits))
        self.checker = LiveChecker(store, self.twins, bounds, quotas, has_room)

    async def until_begun(self) -> None:
        assert await asyncio.to_thread(self.twins.begun.wait, PATIENCE_S)

    async def until_done(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.checker.results.total() < count:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def found(self, tenant: str = TENANT, model: str = "net") -> LiveCheck:
        return self.store.live_checks.find(tenant, [model])[model, 1]


@pytest.fixture
async def new_checked(store: Store) -> AsyncIterator[Callable[..., Checked]]:
    made = []

    def new_checked(judge: Judge = lambda _: EQUAL, quotas: Quotas = NO_QUOTAS, **limits: Any) -> Checked:
        made.append(Checked(store, judge, quotas, **limits))
        return made[-1]

    yield new_checked
    for one in made:
        await one.checker.close()


@pytest.fixture(autouse=True)
def models(store: Store) -> None:
    for tenant in (TENANT, "theirs"):
        source = {"files": {"net.py": "class Net: ..."}, "entrypoint": "net:Net"}
        spec = TraceSpec.model_validate({"model": "net", "source": source, "example_inputs": [1.0]})
        added = store.trace_requests.add(TraceRequest.new(spec, {}, torch_version="2", tenant=tenant))
        claimed = store.trace_requests.claim(added.id)
        assert claimed is not None
        assert store.trace_requests.finish(claimed.id, claimed.attempt, Succeeded.of(spec, [make_artifact()]))


def call(tenant: str = TENANT, digest: str = "sha256:a", byte_size: int = 8) -> LiveCall:
    x, y = (Tensor(name, Datatype.UINT8, (byte_size // 2,), bytes(byte_size // 2)) for name in ("x", "y"))
    return LiveCall(tenant, "net", 1, digest, "forward", [x], [y], TensorLeaf(tensor="y"))


def differs(one: LiveCall) -> LiveOutcome:
    difference = Difference("y", "the model gives 1 at [0], and the artifact 0", [0], 1, 0)
    return LiveOutcome(LiveResult.DIFFERENT, found=LiveDifference(one, difference, one.answer))


async def test_a_share_is_drawn(store: Store) -> None:
    def drawn(share: float) -> int:
        checker = LiveChecker(store, Said(lambda _: EQUAL), LiveCheckLimits(share=share), NO_QUOTAS)
        return sum(checker.draws() for _ in range(1000))

    assert (drawn(0.0), drawn(1.0)) == (0, 1000)
    assert 0 < drawn(0.5) < 1000


async def test_what_is_checked_is_counted_and_stored(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked()

    for _ in range(3):
        checked.checker.offer(call())
    await checked.checker.close()

    assert (checked.checker.asked, checked.checker.results.total()) == (3, 3)
    assert checked.found().asked == 3
    assert checked.found().equal + checked.found().dropped == 3


async def test_whoever_asks_waits_for_nothing(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked(waiting_max=2)
    checked.twins.gate.clear()
    checked.checker.offer(call())
    await checked.until_begun()

    for _ in range(5):
        checked.checker.offer(call())

    assert checked.checker.results == {**dict.fromkeys(LiveResult, 0), LiveResult.DROPPED: 3}
    checked.twins.gate.set()
    await checked.until_done(6)
    assert checked.checker.results[LiveResult.EQUAL] == 3


async def test_what_there_is_no_memory_for_is_not_checked_and_said(new_checked: Callable[..., Checked]) -> None:
    asked = []

    def has_room(tenant: str, byte_size: int) -> bool:
        asked.append((tenant, byte_size))
        return False

    checked = new_checked(has_room=has_room)
    checked.checker.offer(replace(call(), archive_bytes=10**9))
    await checked.until_done(1)
    await checked.checker.close()

    assert checked.twins.turns == []
    assert checked.found().could_not_run == 1
    assert "POOL_MEMORY_MIB" in (checked.found().why or "")
    [(tenant, byte_size)] = asked
    assert tenant == TENANT
    assert byte_size > 10**9


async def test_a_process_that_lives_needs_no_more_room(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked(has_room=lambda *_: False)
    checked.twins.lives = True

    checked.checker.offer(call())
    await checked.until_done(1)

    assert checked.checker.results[LiveResult.EQUAL] == 1


async def test_bytes_that_wait_are_bounded(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked(waiting_max_bytes=100)
    checked.twins.gate.clear()
    checked.checker.offer(call())
    await checked.until_begun()

    checked.checker.offer(call(byte_size=60))
    checked.checker.offer(call(byte_size=60))
    checked.checker.offer(call(byte_size=1000))

    assert checked.checker.results[LiveResult.DROPPED] == 2


async def test_a_tensor_counts_with_all_that_it_keeps_in_memory() -> None:
    body = memoryview(bytes(1000))
    x, y = Tensor("x", Datatype.UINT8, (2,), body[:2]), Tensor("y", Datatype.UINT8, (2,), body[8:10])

    assert LiveCall(TENANT, "net", 1, "sha256:a", "forward", [x], [y], TensorLeaf(tensor="y")).held_bytes == 1000


async def test_the_tenant_with_the_most_loses_its_newest(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked(waiting_max=4)
    checked.twins.gate.clear()
    checked.checker.offer(call("first"))
    await checked.until_begun()
    for _ in range(10):
        checked.checker.offer(call(TENANT))

    checked.checker.offer(call("theirs"))
    checked.checker.offer(call("theirs"))
    checked.twins.gate.set()
    await checked.until_done(13)

    assert [len(turn) for turn in checked.twins.turns if turn[0].tenant == "theirs"] == [2]


async def test_tenants_take_turns_and_artifacts_are_not_mixed(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked(turn_calls=2)
    checked.twins.gate.clear()
    checked.checker.offer(call("first"))
    await checked.until_begun()
    for digest in ("sha256:a", "sha256:b", "sha256:a", "sha256:a"):
        checked.checker.offer(call(TENANT, digest))
    checked.checker.offer(call("theirs"))

    checked.twins.gate.set()
    await checked.until_done(6)

    turns = [(turn[0].tenant, [one.digest for one in turn]) for turn in checked.twins.turns[1:]]
    assert turns == [
        (TENANT, ["sha256:a", "sha256:a"]),
        ("theirs", ["sha256:a"]),
        (TENANT, ["sha256:b"]),
        (TENANT, ["sha256:a"]),
    ]


async def test_what_could_not_run_is_not_tried_again_for_a_while(new_checked: Callable[..., Checked]) -> None:
    lost = LiveOutcome(LiveResult.COULD_NOT_RUN, "it ended its process", lasts=True)
    checked = new_checked(lambda one: lost if one.digest == "sha256:a" else EQUAL)
    checked.checker.offer(call())
    await checked.until_done(1)

    checked.checker.offer(call())
    checked.checker.offer(call(digest="sha256:b"))
    await checked.until_done(3)
    await checked.checker.close()

    assert [turn[0].digest for turn in checked.twins.turns] == ["sha256:a", "sha256:b"]
    found = checked.found()
    assert (found.asked, found.could_not_run, found.equal, found.why) == (3, 2, 1, "it ended its process")


async def test_it_is_tried_again_then(new_checked: Callable[..., Checked]) -> None:
    lost = LiveOutcome(LiveResult.COULD_NOT_RUN, "it ended its process", lasts=True)
    checked = new_checked(lambda _: lost, hold_s=0.0)

    for count in (1, 2):
        checked.checker.offer(call())
        await checked.until_done(count)

    assert len(checked.twins.turns) == 2


async def test_what_a_turn_did_not_come_to_is_checked_later(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked()
    check = checked.twins.check
    checked.twins.check = lambda calls: check(calls[:1])  # type: ignore[method-assign]

    for _ in range(3):
        checked.checker.offer(call())
    await checked.until_done(3)

    assert checked.checker.results[LiveResult.EQUAL] == 3


async def test_a_fault_ends_no_later_check(new_checked: Callable[..., Checked]) -> None:
    def judge(one: LiveCall) -> LiveOutcome:
        if one.digest == "sha256:a":
            raise ZeroDivisionError
        return EQUAL

    checked = new_checked(judge)
    checked.checker.offer(call())
    await checked.until_done(1)
    checked.checker.offer(call(digest="sha256:b"))
    await checked.until_done(2)

    assert checked.checker.results[LiveResult.COULD_NOT_RUN] == checked.checker.results[LiveResult.EQUAL] == 1


async def test_the_first_answers_that_differ_are_kept(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked(differs)

    for count in range(6):
        checked.checker.offer(call())
        await checked.until_done(count + 1)
    await checked.checker.close()

    assert (checked.found().different, len(checked.found().counterexamples)) == (6, 4)
    assert checked.checker.different == {(TENANT, "net", 1): 6}


async def test_what_is_too_large_or_over_the_quota_is_counted_alone(
    new_checked: Callable[..., Checked], store: Store
) -> None:
    for checked in (
        new_checked(differs, counterexample_max_bytes=4),
        new_checked(differs, quotas=Quotas(stored_max_bytes=counted_bytes(store))),
    ):
        checked.checker.offer(call())
        await checked.until_done(1)
        await checked.checker.close()

    assert (checked.found().different, checked.found().counterexamples) == (2, [])


async def test_the_process_ends_when_nobody_has_asked_for_a_while(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked(idle_s=0.01)
    checked.checker.offer(call())
    await checked.until_done(1)

    async with asyncio.timeout(PATIENCE_S):
        while checked.twins.ends == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    checked.checker.offer(call())
    await checked.until_done(2)
    assert checked.checker.results[LiveResult.EQUAL] == 2


async def test_what_is_found_is_stored_while_nobody_asks(new_checked: Callable[..., Checked], store: Store) -> None:
    checked = new_checked(stored_every_s=0.01)
    checked.checker.offer(call())

    async with asyncio.timeout(PATIENCE_S):
        while not (found := store.live_checks.find(TENANT, ["net"])) or not found["net", 1].equal:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    assert found["net", 1] == LiveCheck(asked=1, equal=1)


async def test_nothing_is_checked_after_the_end(new_checked: Callable[..., Checked]) -> None:
    checked = new_checked()
    checked.twins.gate.clear()
    checked.checker.offer(call())
    await checked.until_begun()
    checked.checker.offer(call())

    await checked.checker.close()
    checked.checker.offer(call())

    assert len(checked.twins.turns) == 1
    assert checked.checker.results[LiveResult.DROPPED] == 2
    assert checked.found().dropped == 1
