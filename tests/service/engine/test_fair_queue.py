"""Whose turn it is."""

import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from service.domain.trace_request import TraceRequest
from service.engine.expected_start import Durations
from service.engine.fair_order import FairOrder, Turn
from service.engine.fair_queue import FairQueue
from tests.conftest import PATIENCE_S

SLOTS = 4


@pytest.fixture
def queue():
    return FairQueue(SLOTS)


@pytest.fixture
def put_requests(queue, new_request):
    """Queue so many of a tenant, the youngest first; the requests, oldest first."""

    def put_requests(tenant: str, requests: int = 1) -> list[TraceRequest]:
        made = [new_request(tenant) for _ in range(requests)]
        for request in reversed(made):
            queue.put(request)
        return made

    return put_requests


@pytest.fixture
def put(put_requests):
    """Queue so many of a tenant; the turns they will get, oldest first."""

    def put(tenant: str, requests: int = 1) -> list[Turn]:
        return [Turn(tenant, request.id) for request in put_requests(tenant, requests)]

    return put


@pytest.fixture
def take_and_end(queue):
    def take_and_end(turns: int) -> list[Turn]:
        taken = []
        for _ in range(turns):
            taken.append(queue.take())
            queue.done(taken[-1])
        return taken

    return take_and_end


def test_a_tenant_gets_its_oldest_first(put, take_and_end):
    turns = put("aa", 5)

    assert take_and_end(5) == turns


def test_tenants_take_turns(put, take_and_end):
    aa, bb, cc = put("aa", 3), put("bb", 2), put("cc")

    assert take_and_end(6) == [aa[0], bb[0], cc[0], aa[1], bb[1], aa[2]]


def test_of_tenants_that_never_had_a_turn_the_one_that_waits_longest_is_first(queue, new_request, take_and_end):
    older, younger = new_request("bb"), new_request("aa")
    for request in (younger, older):
        queue.put(request)

    assert take_and_end(2) == [Turn("bb", older.id), Turn("aa", younger.id)]


def test_the_tenant_that_runs_the_fewest_is_next_though_its_turn_was_the_last(queue, put):
    put("aa", 2)
    queue.take()
    [short] = put("bb")
    assert queue.take() == short
    queue.done(short)
    [again] = put("bb")

    assert queue.take() == again


def test_a_tenant_that_queues_again_does_not_overtake(put, take_and_end):
    """Also where nothing of it was left to wait."""
    put("aa")
    take_and_end(1)
    bb = put("bb", 2)
    take_and_end(1)
    aa = put("aa")
    [cc] = put("cc")

    assert take_and_end(3) == [cc, aa[0], bb[1]]
    aa = put("aa")
    bb = put("bb")
    assert take_and_end(2) == [aa[0], bb[0]]


def test_what_is_removed_costs_its_tenant_no_turn(queue, put_requests, take_and_end):
    aa, bb = put_requests("aa", 3), put_requests("bb", 2)
    queue.remove(bb[0])
    queue.remove(aa[1])

    assert [turn.request_id for turn in take_and_end(3)] == [aa[0].id, bb[1].id, aa[2].id]


def test_to_remove_what_does_not_wait_changes_nothing(queue, put, take_and_end, new_request):
    aa = put("aa", 2)
    queue.remove(new_request("aa"))
    queue.remove(new_request("bb"))

    assert take_and_end(2) == aa


def giving_way(turns: list[Turn]) -> list[Turn]:
    return [turn for turn in turns if turn.cancellation.reason == "giving way"]


def test_a_tenant_that_is_alone_has_every_slot(queue, put):
    put("aa", SLOTS + 2)

    turns = [queue.take() for _ in range(SLOTS)]
    put("aa")

    assert giving_way(turns) == []


def test_a_tenant_that_runs_nothing_gets_the_youngest_turn_of_one_that_runs_several(queue, put, put_requests):
    put_requests("aa", SLOTS)
    turns = [queue.take() for _ in range(SLOTS)]

    [waits] = put("bb")

    assert giving_way(turns) == turns[-1:]
    queue.put(put_back := put_requests("aa")[0])  # as the engine does, before the turn is done
    queue.done(turns[-1])
    assert queue.take() == waits
    assert queue.position(put_back) == 1
    put("bb", 3)
    assert giving_way(turns) == turns[-1:], "a tenant that runs something takes no turn from another"


def test_each_tenant_that_runs_nothing_gets_a_turn_and_no_more_than_are_needed_give_way(queue, put):
    put("aa", SLOTS - 1)
    turns = [queue.take() for _ in range(SLOTS - 1)]

    put("bb")
    assert giving_way(turns) == [], "a slot is free"
    put("cc")
    assert giving_way(turns) == turns[-1:]
    put("cc", 5)
    assert giving_way(turns) == turns[-1:], "the slot that comes free is for it"
    put("dd")
    assert giving_way(turns) == turns[-2:]
    put("ee")
    assert giving_way(turns) == turns[-2:], "the oldest turn of a tenant lasts"


def test_of_two_tenants_that_run_several_the_one_that_runs_the_most_gives_way(new_request, put, queue):
    aa, bb = put("aa", 3), put("bb")
    turns = {turn.request_id: turn for turn in (queue.take() for _ in range(SLOTS))}

    put("cc")

    assert giving_way([*turns.values()]) == [turns[aa[2].request_id]]
    assert turns[bb[0].request_id].cancellation.reason is None


def test_a_turn_that_was_cancelled_is_a_slot_to_come(queue, put):
    put("aa", SLOTS)
    turns = [queue.take() for _ in range(SLOTS)]
    turns[0].cancellation.set("cancelled")

    put("bb")

    assert giving_way(turns) == []


QUICK = {"check": {"budget": "quick"}}


def test_a_slot_that_is_kept_for_quick_ones_is_for_no_other(new_request):
    queue = FairQueue(3, quick_slots=1)
    long = [new_request("aa") for _ in range(3)]
    for request in long:
        queue.put(request)
    turns = [queue.take() for _ in range(2)]
    with ThreadPoolExecutor(1) as threads:
        taking = threads.submit(queue.take)
        queue.put(quick := new_request("aa", **QUICK))
        assert taking.result(PATIENCE_S).request_id == quick.id

    queue.done(turns[0])
    assert queue.take().request_id == long[2].id, "a slot is free that it may have"


def test_quick_ones_may_have_every_slot_and_all_others_have_at_least_one(new_request):
    queue, few = FairQueue(2, quick_slots=1), FairQueue(2, quick_slots=2)
    for _ in range(2):
        queue.put(new_request("aa", **QUICK))
    few.put(new_request("aa"))

    assert [queue.take().budget, queue.take().budget] == ["quick", "quick"]
    assert few.take().budget == "normal"


def test_a_tenant_that_runs_nothing_gets_a_slot_for_what_is_not_quick_though_one_is_kept(new_request):
    queue = FairQueue(3, quick_slots=1)
    for _ in range(2):
        queue.put(new_request("aa"))
    turns = [queue.take() for _ in range(2)]

    queue.put(new_request("bb", **QUICK))
    assert giving_way(turns) == [], "the slot that is kept is for it"
    queue.put(new_request("cc"))

    assert giving_way(turns) == turns[-1:]


def test_what_is_not_quick_is_expected_in_the_other_slots(new_request):
    order = FairOrder(2, quick_slots=1)
    order.begin(Turn("aa", "runs", "normal", datetime.now(UTC)))
    quick, long = new_request("bb", **QUICK), new_request("bb")
    for request in (quick, long):
        order.put(request.tenant, request.created_at, request.id, request.budget)
    durations = Durations({"normal": [1000.0] * 3, "quick": [1.0] * 3}, {"normal": 6000.0})

    soon, later = (order.expected_start(request, durations) for request in (quick, long))

    assert later - soon > timedelta(minutes=10)


LONG_AFTER_S = 60.0


@pytest.fixture
def begin_at():
    """Begin a turn of this request so many seconds ago."""

    def begin_at(order: FairOrder, request: TraceRequest, seconds: float) -> Turn:
        began_at = datetime.now(UTC) - timedelta(seconds=seconds)
        turn = Turn(request.tenant, request.id, request.budget, began_at, request.created_at)
        order.begin(turn)
        return turn

    return begin_at


def wait_in(order: FairOrder, request: TraceRequest, *, has_begun: bool = False) -> None:
    order.put(request.tenant, request.created_at, request.id, request.budget, has_begun=has_begun)


def test_of_long_turns_in_all_slots_the_one_that_was_submitted_last_gives_way_to_what_never_began(
    new_request, begin_at
):
    order = FairOrder(3, long_after_s=LONG_AFTER_S)
    oldest, middle, youngest, new = (new_request("aa") for _ in range(4))
    begin_at(order, youngest, 90)  # it began before the others, which began anew
    begin_at(order, middle, 80)
    begin_at(order, oldest, 70)
    assert order.turn_to_end() is None, "nothing waits"
    wait_in(order, new)

    gives_way = order.turn_to_end()
    assert gives_way.request_id == youngest.id
    gives_way.cancellation.set("giving way")
    assert order.turn_to_end() is None, "one slot is enough"
    order.done(gives_way)
    wait_in(order, youngest, has_begun=True)

    assert order.next().request_id == new.id, "or it would have given way in vain"
    assert order.turn_to_end() is None


def test_nothing_gives_way_while_a_turn_is_short_or_to_what_began_before(new_request, begin_at):
    order = FairOrder(2, long_after_s=LONG_AFTER_S)
    waits = new_request("aa")
    begin_at(order, new_request("aa"), 70)
    short = begin_at(order, new_request("aa"), 50)
    wait_in(order, waits)
    assert order.turn_to_end() is None

    order.done(short)
    order.remove(waits)
    begin_at(order, new_request("aa"), 70)
    wait_in(order, waits, has_begun=True)
    assert order.turn_to_end() is None


def test_what_is_deep_has_no_long_turn_give_way_and_does_not_come_first(new_request, begin_at):
    order = FairOrder(2, long_after_s=LONG_AFTER_S)
    deep, new = new_request("aa", check={"budget": "deep"}), new_request("aa")
    long = [begin_at(order, new_request("aa"), 70) for _ in range(2)]
    wait_in(order, deep)
    assert order.turn_to_end() is None

    wait_in(order, new)

    assert order.turn_to_end() == long[1]
    order.done(long[1])
    assert order.next().request_id == new.id


def test_what_began_before_has_its_old_place_where_not_all_other_slots_have_long_turns(new_request, begin_at):
    order = FairOrder(2, long_after_s=LONG_AFTER_S)
    began, new = new_request("aa"), new_request("aa")
    begin_at(order, new_request("aa"), 50)
    wait_in(order, began, has_begun=True)
    wait_in(order, new)

    assert order.next().request_id == began.id


def test_slots_that_are_kept_for_quick_ones_count_neither_as_long_nor_as_free(new_request, begin_at):
    order = FairOrder(3, quick_slots=1, long_after_s=LONG_AFTER_S)
    begin_at(order, new_request("aa"), 80)
    last = begin_at(order, new_request("aa"), 70)
    wait_in(order, new_request("aa", **QUICK))
    assert order.turn_to_end() is None, "a slot is kept for it"

    wait_in(order, new_request("aa"))

    assert order.turn_to_end() == last


def test_with_one_slot_nothing_gives_way(new_request):
    queue = FairQueue(1)
    queue.put(new_request("aa"))
    turn = queue.take()

    queue.put(new_request("bb"))

    assert turn.cancellation.reason is None


def test_an_idle_turn_that_is_taken_over_counts_as_its_tenants(queue, put):
    put("aa", SLOTS - 1)
    turns = [queue.take() for _ in range(SLOTS - 1)]
    queue.begin_idle(idle := Turn("aa", "idle"))
    queue.take_over("idle")
    turns.append(idle)

    put("bb")

    assert giving_way(turns) == [idle]
    queue.done(idle)
    assert queue.take().tenant == "bb"


def test_an_idle_turn_gives_way_to_whatever_is_put_or_was_put_before(queue, put):
    queue.begin_idle(before := Turn("aa", "before"))
    put("aa")
    queue.begin_idle(after := Turn("aa", "after"))

    assert giving_way([before, after]) == [before, after]


@pytest.mark.parametrize("seed", range(20))
def test_a_position_is_the_place_in_the_order_of_turns(new_request, seed):
    drawn, queue = random.Random(seed), FairQueue(50)
    tenants = [f"tenant-{number}" for number in range(drawn.randint(1, 5))]
    for request in [new_request(drawn.choice(tenants)) for _ in range(20)]:
        queue.put(request)
    for turn in [queue.take() for _ in range(drawn.randint(0, 15))]:
        if drawn.random() < 0.5:
            queue.done(turn)
    waiting = {request.id: request for request in [new_request(drawn.choice(tenants)) for _ in range(20)]}
    for request in waiting.values():
        queue.put(request)

    told = {request_id: queue.position(request) for request_id, request in waiting.items()}

    taken = [queue.take().request_id for _ in range(max(told.values()))]
    assert told == {request_id: taken.index(request_id) + 1 for request_id in waiting}
    assert [queue.position(request) for request in waiting.values()] == [None] * len(waiting)


def test_to_take_a_turn_reads_no_more_of_a_long_queue(new_request):
    """Ten thousand that wait cost what ten do, in calls of Python's."""
    assert calls_of_a_turn(FairQueue(2), new_request, waiting=10) == calls_of_a_turn(
        FairQueue(2), new_request, waiting=10_000
    )


def calls_of_a_turn(queue: FairQueue, new_request, waiting: int) -> int:
    """How many calls, those of builtins counted, it takes to begin and end a turn."""
    [first, *_] = [new_request(f"tenant-{number}") for number in range(3)]
    queue.put(first)
    for _ in range(waiting):
        queue.put(first.model_copy(update={"id": uuid4().hex}))
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        queue.done(queue.take())
    finally:
        sys.setprofile(None)
    return calls


def test_a_closed_queue_gives_no_more_turns_to_who_waits_for_one_or_comes(queue, put):
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(queue.take) for _ in range(2)]
        queue.close()

        assert [turn.result(PATIENCE_S) for turn in waiting] == [None, None]

    put("aa")
    assert queue.take() is None


def test_threads_that_put_and_take_at_once_lose_nothing_and_take_nothing_twice(queue, put):
    tenants, each = ["aa", "bb", "cc"], 50

    def take_some() -> list[Turn]:
        taken = []
        for _ in range(each):
            taken.append(queue.take())
            queue.done(taken[-1])
        return taken

    with ThreadPoolExecutor(2 * len(tenants)) as threads:
        taking = [threads.submit(take_some) for _ in tenants]
        putting = [threads.submit(put, tenant, each) for tenant in tenants]
        there = Counter(turn for turns in putting for turn in turns.result(PATIENCE_S))
        taken = Counter(turn for turns in taking for turn in turns.result(PATIENCE_S))

    assert taken == there


@pytest.mark.parametrize("seed", range(10))
def test_no_tenant_that_runs_nothing_waits_for_one_that_runs_several(new_request, seed):
    """Whatever comes, ends and gives way, in whatever order; and all that came has its turn."""
    drawn, slots = random.Random(seed), 2 + seed % 3
    queue, running, waiting, ended = FairQueue(slots), [], {}, []
    coming = [new_request(f"tenant-{drawn.randint(1, 5)}") for _ in range(60)]
    came = {request.id: request for request in coming}

    while coming or waiting or running:
        if coming and drawn.random() < 0.3:
            request = coming.pop()
            queue.put(request)
            waiting[request.id] = request.tenant
        elif running and (not waiting or len(running) == slots or drawn.random() < 0.5):
            turn = drawn.choice(giving_way(running) or running)
            if turn.cancellation.reason is None:
                ended.append(turn.request_id)
            else:
                queue.put(came[turn.request_id])
                waiting[turn.request_id] = turn.tenant
            running.remove(turn)
            queue.done(turn)
        elif waiting and len(running) < slots:
            running.append(queue.take())
            del waiting[running[-1].request_id]
        lasting = Counter(turn.tenant for turn in running if turn.cancellation.reason is None)
        without_turn = set(waiting.values()) - set(lasting)
        assert len(without_turn) <= slots - lasting.total() or max(lasting.values(), default=0) < 2

    assert sorted(ended) == sorted(came)
