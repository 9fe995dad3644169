"""Whose turn it is."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.engine.fair_queue import FairQueue, Turn
from tests.conftest import PATIENCE_S


@pytest.fixture
def queue():
    return FairQueue()


@pytest.fixture
def put(queue, new_request):
    """Queue so many of a tenant; the turns they will get, oldest first."""

    def put(tenant: str, requests: int = 1) -> list[Turn]:
        made = [new_request(tenant) for _ in range(requests)]
        for request in reversed(made):
            queue.put(request)
        return [Turn(tenant, request.id) for request in made]

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


def test_what_is_removed_costs_its_tenant_no_turn(queue, put, take_and_end):
    aa, bb = put("aa", 3), put("bb", 2)
    queue.remove("bb", bb[0].request_id)
    queue.remove("aa", aa[1].request_id)

    assert take_and_end(3) == [aa[0], bb[1], aa[2]]


def test_to_remove_what_does_not_wait_changes_nothing(queue, put, take_and_end):
    aa = put("aa", 2)
    queue.remove("aa", "nowhere")
    queue.remove("bb", aa[0].request_id)

    assert take_and_end(2) == aa


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
