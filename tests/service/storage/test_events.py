import pytest

from service.domain.errors import TraceRequestNotFound
from service.domain.trace_request import Stage
from service.storage.events import PAGE_BYTES
from tests.conftest import TENANT


def test_events_are_told_in_order(store, new_request):
    request = store.trace_requests.add(new_request())
    store.trace_requests.claim(request.id)
    store.events.append(request.id, "log", {"text": "hello\n"})
    store.trace_requests.report(request.id, 1, Stage.TRACING, 0.25)
    store.trace_requests.cancel(TENANT, request.id)

    events = store.events.after(TENANT, request.id, 0, 100)

    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert [(event.kind, event.data) for event in events] == [
        ("stage", {"stage": "queued", "progress": 0, "state": "queued"}),
        ("stage", {"stage": "loading", "progress": 0, "state": "running"}),
        ("log", {"text": "hello\n"}),
        ("stage", {"stage": "tracing", "progress": 0.25, "state": "running"}),
        ("end", {"state": "cancelled", "verdict": None}),
    ]
    assert {event.request_id for event in events} == {request.id}
    assert events == sorted(events, key=lambda event: event.created_at)


def test_a_watcher_goes_on_where_it_left(store, new_request):
    request = store.trace_requests.add(new_request())
    for text in "abc":
        store.events.append(request.id, "log", {"text": text})

    assert [event.seq for event in store.events.after(TENANT, request.id, 1, 2)] == [2, 3]
    assert [event.seq for event in store.events.after(TENANT, request.id, 3, 2)] == [4]
    assert store.events.after(TENANT, request.id, 4, 2) == []


def test_a_page_ends_where_it_is_large_though_it_has_few_events(store, new_request):
    request = store.trace_requests.add(new_request())
    texts = ["ü" * (PAGE_BYTES // 4 - 10), "short", *["a" * PAGE_BYTES] * 2, "last"]
    for text in texts:
        store.events.append(request.id, "log", {"text": text})

    def after(seq: int) -> list[int]:
        return [event.seq for event in store.events.after(TENANT, request.id, seq, 100)]

    assert [after(seq) for seq in (0, 4, 5, 6)] == [[1, 2, 3, 4], [5], [6], []]
    assert "".join(store.events.log(TENANT, request.id)) == "".join(texts)


def test_numbers_have_no_gaps_though_many_append(store, new_request, at_once):
    request = store.trace_requests.add(new_request())

    def append(writer: int) -> None:
        for line in range(10):
            store.events.append(request.id, "log", {"text": f"{writer}.{line} "})

    at_once(*[lambda writer=writer: append(writer) for writer in range(6)])

    assert [event.seq for event in store.events.after(TENANT, request.id, 0, 1000)] == [*range(1, 62)]
    lines = "".join(store.events.log(TENANT, request.id)).split()
    assert [line for line in lines if line.startswith("3.")] == [f"3.{line}" for line in range(10)]


def test_nothing_comes_after_the_end(store, new_request):
    request = store.trace_requests.add(new_request())
    store.trace_requests.cancel(TENANT, request.id)

    assert not store.events.append(request.id, "log", {"text": "too late"})

    assert [event.kind for event in store.events.after(TENANT, request.id, 0, 100)] == ["stage", "end"]


def test_a_request_that_is_not_there_has_no_events(store):
    with pytest.raises(TraceRequestNotFound):
        store.events.append("nowhere", "log", {"text": ""})

    assert store.events.after(TENANT, "nowhere", 0, 10) == []
    assert [*store.events.log(TENANT, "nowhere")] == []


def test_the_log_is_what_was_printed(store, new_request):
    request = store.trace_requests.add(new_request())
    store.trace_requests.claim(request.id)
    pieces = [f"line {number} \x00 ü\n" for number in range(130)]
    for piece in pieces:
        store.events.append(request.id, "log", {"text": piece})
        store.trace_requests.report(request.id, 1, Stage.TRACING, 0.5)

    assert [*store.events.log(TENANT, request.id)] == pieces


def test_events_appended_together_are_numbered_and_counted_one_by_one(store, new_request):
    together, apart = [store.trace_requests.add(new_request(name)) for name in ("together", "apart")]
    pieces = [{"text": "one"}, {"text": "two ü"}, {"text": "three"}]

    store.events.append(together.id, "log", *pieces)
    for piece in pieces:
        store.events.append(apart.id, "log", piece)

    events, expected = [store.events.after(TENANT, one.id, 0, 10) for one in (together, apart)]
    assert [(event.seq, event.kind, event.data) for event in events] == [
        (event.seq, event.kind, event.data) for event in expected
    ]
    for request in (together, apart):
        store.trace_requests.cancel(TENANT, request.id)
    assert store.events.after(TENANT, together.id, 4, 10)[0].kind == "end"


def test_the_log_is_that_of_the_newest_attempt(store, new_request):
    request = store.trace_requests.add(new_request())
    for attempt in (1, 2):
        store.trace_requests.claim(request.id)
        store.events.append(request.id, "log", {"text": f"attempt {attempt}"})
        store.trace_requests.release(request.id, attempt)

    assert [*store.events.log(TENANT, request.id)] == ["attempt 2"]


def test_an_attempt_that_another_has_taken_over_appends_nothing_more(store, new_request):
    request = store.trace_requests.add(new_request())
    first = store.trace_requests.claim(request.id)
    assert store.events.append(request.id, "log", {"text": "first"}, attempt=first.attempt)

    store.trace_requests.release(request.id, first.attempt)
    assert not store.events.append(request.id, "log", {"text": "between"}, attempt=first.attempt)
    second = store.trace_requests.claim(request.id)
    assert not store.events.append(request.id, "log", {"text": "late"}, attempt=first.attempt)
    assert store.events.append(request.id, "log", {"text": "second"}, attempt=second.attempt)

    assert [*store.events.log(TENANT, request.id)] == ["second"]


def test_who_waits_is_told_once_it_is_on_disk(store, new_request):
    request = store.trace_requests.add(new_request())
    other = store.trace_requests.add(new_request("other"))
    seen = []

    with store.changes.subscribe(request.id, lambda: seen.append(len(store.events.after(TENANT, request.id, 0, 10)))):
        store.events.append(request.id, "log", {"text": "a"})
        store.events.append(other.id, "log", {"text": "b"})
        store.trace_requests.cancel(TENANT, request.id)
    store.trace_requests.cancel(TENANT, other.id)

    assert seen == [2, 3]
