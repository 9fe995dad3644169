"""Watching a trace request: everything is told, in order, once, and the stream ends when there is no more."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import orjson
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from service.storage.database import Store
from tests.conftest import PATIENCE_S, wait_until
from tests.service.api.conftest import Tracer, assert_problem, authorized, local, spec, with_limits

Told = tuple[int, str, dict[str, Any]]


def told(lines: Iterator[str]) -> Iterator[Told | None]:
    """Each stored event as (seq, kind, data), and None for a heartbeat."""
    event: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            yield None
        elif line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            if "id" in event:
                yield int(event["id"]), event["event"], orjson.loads(event["data"])
            event = {}


def events_of(answer: Any) -> list[Told]:
    return [event for event in told(iter(answer.text.splitlines())) if event is not None]


def test_all_of_it_is_told_in_order_to_whoever_comes_late(client: TestClient) -> None:
    request = client.post("/trace", json=spec(), headers={"prefer": "wait=30"}).json()

    answer = client.get(request["links"]["events"])

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    events = events_of(answer)
    assert [seq for seq, _, _ in events] == list(range(1, len(events) + 1))
    assert [kind for _, kind, _ in events] == ["stage", "stage", "stage", "log", "end"]
    assert events[2][2] == {"stage": "tracing", "progress": 0.5, "state": "running"}
    assert events[3][2] == {"text": "printed\n"}
    assert events[4][2] == {"state": "succeeded", "verdict": "verified"}


def test_a_log_of_many_large_pieces_is_told_whole(client: TestClient, store: Store, tracer: Tracer) -> None:
    request = client.post("/trace", json=spec("stays")).json()
    assert tracer.running.wait(PATIENCE_S)
    texts = [f"{number}".rjust(20_000, "ü") for number in range(30)]
    for text in texts:
        store.events.append(request["id"], "log", {"text": text})
    client.post(f"/trace/{request['id']}/cancel")

    events = events_of(client.get(request["links"]["events"]))

    assert [seq for seq, _, _ in events] == list(range(1, len(events) + 1))
    assert [data["text"] for _, kind, data in events if kind == "log"] == ["printed\n", *texts]


@pytest.mark.parametrize(
    ("headers", "query"), [({"last-event-id": "3"}, ""), ({}, "?after=3"), ({"last-event-id": "3"}, "?after=1")]
)
def test_a_watcher_that_was_cut_off_goes_on_where_it_was(
    client: TestClient, headers: dict[str, str], query: str
) -> None:
    request = client.post("/trace", json=spec(), headers={"prefer": "wait=30"}).json()

    answer = client.get(request["links"]["events"] + query, headers=headers)

    assert [seq for seq, _, _ in events_of(answer)] == [4, 5]


def test_a_watcher_that_has_seen_the_end_is_told_to_ask_no_more(client: TestClient) -> None:
    request = client.post("/trace", json=spec(), headers={"prefer": "wait=30"}).json()

    assert client.get(request["links"]["events"], headers={"last-event-id": "5"}).status_code == 204


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 50, "٣".encode()])
def test_an_event_id_of_somebody_else(steady: TestClient, last: str | bytes) -> None:
    answer = steady.get(f"/trace/{'0' * 32}/events", headers={"last-event-id": last})  # type: ignore[dict-item]

    assert_problem(answer, 400, "malformed-header")


def test_events_come_while_they_happen_with_heartbeats_between(live: httpx.Client, tracer: Tracer) -> None:
    request = live.post("/trace", json=spec("stays")).json()

    with live.stream("GET", request["links"]["events"]) as answer:
        events = told(answer.iter_lines())
        seen = [next(event for event in events if event is not None) for _ in range(4)]
        heartbeat = next(events)
        live.post(request["links"]["cancel"])
        rest = [event for event in events if event is not None]

    assert [kind for _, kind, _ in seen] == ["stage", "stage", "stage", "log"]
    assert heartbeat is None
    assert [(kind, data) for _, kind, data in rest] == [("end", {"state": "cancelled", "verdict": None})]


def test_a_request_that_waits_is_told_its_place_whenever_that_changes(live: httpx.Client, tracer: Tracer) -> None:
    """Of two slots, both are taken. What is told is not stored: it has no id."""
    first, *others = [live.post("/trace", json=spec("stays", force=True)).json() for _ in range(4)]
    waits = others[-1]
    wait_until(lambda: live.get(waits["links"]["self"]).json()["position"] == 2)

    with live.stream("GET", waits["links"]["events"]) as answer:
        lines = answer.iter_lines()
        told_first = next_position(lines)
        live.post(first["links"]["cancel"])
        told_next = next_position(lines)

    told = [{"position": place, "expected_start": None} for place in (2, 1)]  # none has ended yet
    assert [told_first, told_next] == told
    assert live.get(waits["links"]["self"]).json()["position"] == 1
    for request in others:
        live.post(request["links"]["cancel"])
    assert live.get(waits["links"]["self"]).json()["position"] is None


def next_position(lines: Iterator[str]) -> dict[str, Any]:
    before = ""
    for line in lines:
        if line == "event: position":
            assert not before.startswith("id:")
            data: dict[str, Any] = orjson.loads(next(lines).removeprefix("data: "))
            return data
        before = line
    raise AssertionError("the stream ended")


def test_an_open_stream_ends_when_the_service_stops(live: httpx.Client, tracer: Tracer, context: AppContext) -> None:
    request = live.post("/trace", json=spec("stays")).json()

    with live.stream("GET", request["links"]["events"]) as answer:
        events = told(answer.iter_lines())
        assert next(events) is not None
        context.stopping.set()
        kinds = [event[1] for event in events if event is not None]

    assert "end" not in kinds


# The head, the events of a request that stays and some heartbeats: whoever has taken so many waits for the next one.
ALL_THAT_COMES = 8


class Watcher:
    """A client that takes so many messages, the head first, and then no more; it vanishes when it is told to."""

    def __init__(self, app: FastAPI, path: str, headers: dict[str, str], *, takes: int) -> None:
        self._takes = takes
        self._taken = 0
        self._asked = False
        self._gone = asyncio.Event()
        self._settled = asyncio.Event()
        self.status: int | None = None
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"localhost"), *((name.encode(), value.encode()) for name, value in headers.items())],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        self._call = asyncio.create_task(app(scope, self._receive, self._send))

    async def settle(self) -> None:
        """Wait until it takes no more, or has taken all that comes, or was refused."""
        settled = asyncio.create_task(self._settled.wait())
        await asyncio.wait([self._call, settled], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        settled.cancel()

    async def vanish(self) -> None:
        self._gone.set()
        async with asyncio.timeout(PATIENCE_S):
            await self._call

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        if self._taken == self._takes and self.status == 200:
            self._settled.set()
            await asyncio.Event().wait()  # until it is cancelled
        self._taken += 1
        if self._taken == ALL_THAT_COMES:
            self._settled.set()


@pytest.fixture
def crowded(context: AppContext, store: Store, client: TestClient) -> Iterator[tuple[FastAPI, str, dict[str, str]]]:
    """An app that lets each tenant have two streams, the path of one, and a tenant's headers."""
    app = create_app(replace(with_limits(context, tenant_streams_max=2), keys_required=True))
    headers = authorized(store)
    with local(app) as client:
        request = client.post("/trace", json=spec("stays"), headers=headers).json()
        yield app, request["links"]["events"], headers


def test_streams_are_counted_before_any_of_them_is_read(crowded: tuple[FastAPI, str, dict[str, str]]) -> None:
    async def open_five() -> list[int | None]:
        watchers = [Watcher(*crowded, takes=0) for _ in range(5)]
        await asyncio.gather(*(watcher.settle() for watcher in watchers))
        await asyncio.gather(*(watcher.vanish() for watcher in watchers))
        return [watcher.status for watcher in watchers]

    assert sorted(asyncio.run(open_five())) == [200, 200, 429, 429, 429]  # type: ignore[type-var]


@pytest.mark.parametrize("takes", [0, 1, 2, 1000])
def test_a_stream_is_free_as_soon_as_its_client_is_gone(
    crowded: tuple[FastAPI, str, dict[str, str]], context: AppContext, takes: int
) -> None:
    """Gone before the head is read, before the body is, between two events, or while there is nothing to read."""

    async def come_and_go() -> list[tuple[int | None, int, int]]:
        seen = []
        for _ in range(5):
            watcher = Watcher(*crowded, takes=takes)
            await watcher.settle()
            open_before = context.streams.of("acme")
            await watcher.vanish()
            seen.append((watcher.status, open_before, context.streams.of("acme")))
        return seen

    assert asyncio.run(come_and_go()) == [(200, 1, 0)] * 5
