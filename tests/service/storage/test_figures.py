"""What the database and this process count of trace requests, for whoever watches the service."""

from datetime import UTC, datetime, timedelta

from service.domain.outcome import NotTraced, Succeeded
from service.storage.trace_counts import AttemptEnd
from tests.conftest import counted_bytes, make_artifact
from tracehouse.errors import Failure

THEIRS = Failure(slug="model-raised", detail="boom")
OURS = Failure(slug="tracer-lost", detail="the child vanished")


def claimed(store, request):
    store.trace_requests.add(request)
    return store.trace_requests.claim(request.id)


def test_queues_are_told_apart_by_pool_with_the_age_of_their_oldest(store, new_request):
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    store.trace_requests.add(new_request(model="a").model_copy(update={"created_at": hour_ago}))
    store.trace_requests.add(new_request(model="b"))
    store.trace_requests.add(new_request(model="c", devices=["cuda"]))
    claimed(store, new_request(model="d"))
    nobody = new_request(model="e").model_copy(update={"is_idle": True, "created_at": hour_ago - timedelta(hours=1)})
    store.trace_requests.add(nobody)

    queues = store.figures.read().queues

    assert (queues["cpu"].waiting, queues["cpu"].running) == (2, 1)
    assert 3600 <= queues["cpu"].oldest_s < 7000
    assert (queues["gpu"].waiting, queues["gpu"].running) == (1, 0)


def test_durations_are_those_of_the_newest_that_ended_by_budget(store, new_request):
    def end(**spec):
        request = claimed(store, new_request(**spec))
        store.trace_requests.finish(request.id, request.attempt, NotTraced(failure=THEIRS))

    for _ in range(3):
        end()
    end(check={"budget": "quick"})
    end(devices=["cuda"])
    cancelled = claimed(store, new_request())
    store.trace_requests.cancel(cancelled.tenant, cancelled.id)

    def count(pool, **limits):
        return {budget: len(each) for budget, each in store.figures.durations(pool, **limits).items()}

    assert count("cpu") == {"normal": 3, "quick": 1}
    assert count("cpu", newest=2) == {"normal": 1, "quick": 1}
    assert count("cpu", among=3) == {"normal": 1, "quick": 1}, "the newest of the three is of another pool"
    assert count("gpu") == {"normal": 1}


def test_stored_bytes_are_those_that_count_against_quotas(store, new_request):
    store.trace_requests.add(new_request())

    assert store.figures.read().stored_bytes == counted_bytes(store) > 0


def test_each_end_of_an_attempt_is_counted_once(store, new_request):
    requests, counts = store.trace_requests, store.trace_requests.counts
    first = claimed(store, new_request(model="a"))
    assert requests.finish(first.id, first.attempt, Succeeded.of(first.spec, [make_artifact()]))
    assert not requests.finish(first.id, first.attempt, Succeeded.of(first.spec, [make_artifact()]))
    second = claimed(store, new_request(model="b"))
    requests.finish(second.id, second.attempt, NotTraced(failure=THEIRS))
    third = claimed(store, new_request(model="c"))
    requests.release(third.id, third.attempt)
    third = requests.claim(third.id)
    requests.retry(third.id, third.attempt, OURS, attempts=2)
    third = requests.claim(third.id)
    requests.retry(third.id, third.attempt, OURS, attempts=2)
    fourth = claimed(store, new_request(model="d"))
    requests.cancel(fourth.tenant, fourth.id)
    fifth = requests.add(new_request(model="e"))
    requests.cancel(fifth.tenant, fifth.id)

    assert counts.attempts == {
        ("cpu", AttemptEnd.SUCCEEDED): 1,
        ("cpu", AttemptEnd.FAILED): 1,
        ("cpu", AttemptEnd.RELEASED): 1,
        ("cpu", AttemptEnd.LOST): 2,
        ("cpu", AttemptEnd.CANCELLED): 1,
    }
    assert counts.outcomes == {("cpu", "verified"): 1, ("cpu", "failed"): 2, ("cpu", "cancelled"): 2}
    assert counts.problems == {"model-raised": 1, "tracer-lost": 1}
    assert sum(counts.waited["cpu"].counts) == 4, "each request that began, once"
    assert sum(counts.took["cpu"].counts) == 2


def test_what_a_lost_process_was_running_is_counted_by_the_next(store, new_request):
    claimed(store, new_request())

    store.trace_requests.recover(attempts=3)

    assert store.trace_requests.counts.attempts == {("cpu", AttemptEnd.LOST): 1}


def test_a_problem_that_no_class_has_is_counted_under_one_name(store, new_request):
    for number in range(3):
        request = claimed(store, new_request(model=f"m{number}"))
        failure = Failure(slug=f"invented-{number}", detail="boom")
        store.trace_requests.finish(request.id, request.attempt, NotTraced(failure=failure))

    assert store.trace_requests.counts.problems == {"service-error": 3}
