"""A client waits for a service that is starting, looks before it sends much, and makes keys."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from tracehouse import AsyncClient, Client
from tracehouse.client import errors
from tracehouse.client.client import CannotBegin

NO_MODELS = {"models": [], "next_cursor": None}
LIMITS = {"request_max_bytes": 10**6, "upload_max_bytes": 2 * 10**6, "files_max": 9}
KEY = {
    "prefix": "th_ab12cd34", "name": "ci", "tenant": "acme", "scopes": ["read"], "created_at": "2026-01-01T00:00:00Z",
    "expires_at": None, "last_used_at": None, "revoked_at": None, "requests_per_minute": None, "upload_max_bytes": None,
}  # fmt: skip


def answering(answer: Callable[[httpx.Request], httpx.Response], **options: Any) -> Client:
    return Client("http://service", transport=httpx.MockTransport(answer), **options)


def test_a_request_that_nobody_can_begin_is_warned_of_when_it_is_sent() -> None:
    """A script whose errors go to a file shows no progress, and would wait without a word."""
    queued = {"id": "0" * 32, "state": "queued", "stage": "queued", "pool": "gpu", "waiting": "no worker in pool gpu"}
    client = answering(lambda _: httpx.Response(202, json=queued))

    with pytest.warns(CannotBegin, match=r"no worker in pool gpu.*GPU_SLOTS=1"):
        trace = client.trace("torch.nn:Linear", np.ones((1, 2), np.float32), args=[2, 3], devices=["cuda"])
    assert trace.state == "queued"


def test_an_argument_that_there_is_not_is_refused_under_the_methods_name() -> None:
    client: Any = answering(lambda _: httpx.Response(500))

    with pytest.raises(TypeError, match=r"^trace\(\) got an unexpected keyword argument 'device'"):
        client.trace("torch.nn:Linear", device="cuda")


def test_weights_in_memory_go_in_pieces() -> None:
    """httpx copies all that is left of a piece, each time the socket has taken a part of it."""
    pieces: list[int] = []

    class Counting(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "GET":
                return httpx.Response(200, json=LIMITS)
            assert isinstance(request.stream, httpx.SyncByteStream)
            pieces.extend(map(len, request.stream))
            return httpx.Response(202, json={"id": "0" * 32, "state": "queued", "stage": "queued"})

    Client("http://service", transport=Counting()).trace(torch.nn.Linear(512, 512), np.ones((1, 512), np.float32))

    assert sum(pieces) > 4 * 512 * 512
    assert max(pieces) <= 2**18


class Starting:
    """Nobody answers at first, then a proxy does, and then the service."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        match len(self.asked):
            case 1:
                raise httpx.ConnectError("refused")
            case 2:
                return httpx.Response(502, text="<html>")
        return httpx.Response(200, json=NO_MODELS)


def test_a_service_that_is_starting_is_waited_for_once(capsys: pytest.CaptureFixture[str]) -> None:
    starting = Starting()
    client = answering(starting, wait_s=60)

    assert (client.models.list(), client.models.list()) == ([], [])
    assert starting.asked == ["/readyz"] * 3 + ["/models"] * 2
    assert capsys.readouterr().err == "Waiting up to 60 s for the service at http://service: refused\n"


def test_the_async_client_waits_too() -> None:
    starting = Starting()

    async def ask() -> None:
        async with AsyncClient("http://service", wait_s=60, transport=httpx.MockTransport(starting)) as client:
            assert await client.models.list() == []

    asyncio.run(ask())
    assert starting.asked == ["/readyz"] * 3 + ["/models"]


def test_a_service_that_does_not_come_is_unreachable_when_the_time_is_over() -> None:
    with pytest.raises(errors.ServiceUnreachable, match="wait_s"):
        Client("127.0.0.1:9", wait_s=0.3).models.list()


@pytest.mark.parametrize("wait_s", [-1, 1e9, float("nan")])
def test_a_time_that_nobody_waits_is_refused(wait_s: float) -> None:
    with pytest.raises(errors.NotSendable, match="up to 3600 seconds"):
        Client(wait_s=wait_s)


@pytest.mark.parametrize(
    ("byte_size", "asked"), [(10**5, ["/trace"]), (15 * 10**5, ["/limits", "/trace"]), (3 * 10**6, ["/limits"])]
)
def test_what_is_too_large_is_not_sent(tmp_path: Path, byte_size: int, asked: list[str]) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        if request.url.path == "/limits":
            return httpx.Response(200, json=LIMITS)
        return httpx.Response(413, json={"title": "It is too large", "code": "payload-too-large"})

    (tmp_path / "net.py").write_text("class Net: ...\n")
    (tmp_path / "weights.pt").write_bytes(bytes(byte_size))
    kind = errors.NotSendable if byte_size > 2 * 10**6 else errors.InvalidRequest
    with pytest.raises(kind) as refused:
        answering(answer).trace(f"{tmp_path}/net.py:Net", np.ones(2, np.float32), weights=tmp_path / "weights.pt")

    assert seen == asked
    if kind is errors.NotSendable:
        assert "3,000,000" in str(refused.value)
        assert "takes 2,000,000: send less" in str(refused.value)


def test_keys_are_made_listed_and_revoked_and_a_secret_stands_in_no_address() -> None:
    seen: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, str(request.url)))
        made = KEY | {"key": "th_ab12cd34_secret"}
        page = {"keys": [KEY], "next_cursor": None if "cursor" in str(request.url) else "next"}
        return httpx.Response(200, json=made if request.method == "POST" else page)

    client = answering(answer)
    made = client.keys.create("ci", ["read"])
    assert (made.text, made.key.prefix, "secret" in repr(made)) == ("th_ab12cd34_secret", "th_ab12cd34", False)
    assert [key.name for key in client.keys.list(tenant="acme")] == ["ci", "ci"]
    client.keys.revoke(made.text)
    client.keys.revoke("th_ab12cd34", tenant="acme")

    assert seen == [
        ("POST", "http://service/keys"),
        ("GET", "http://service/keys?limit=100&tenant=acme"),
        ("GET", "http://service/keys?limit=100&tenant=acme&cursor=next"),
        ("DELETE", "http://service/keys/th_ab12cd34"),
        ("DELETE", "http://service/keys/th_ab12cd34?tenant=acme"),
    ]
    with pytest.raises(errors.NotSendable, match="no key"):
        client.keys.revoke("../models/net")
    with pytest.raises(errors.NotSendable, match="time zone"):
        client.keys.create("ci", expires_at=datetime(2050, 1, 1))  # noqa: DTZ001 - the mistake that is refused


def test_a_model_is_served_bitwise_and_says_so() -> None:
    model = {"name": "net", "default_version": None, "versions": [], "aliases": []}

    def answer(request: httpx.Request) -> httpx.Response:
        sent = json.loads(request.content) if request.method == "PATCH" else {}
        return httpx.Response(200, json=model | sent)

    async def set_it() -> bool:
        async with AsyncClient("http://service", transport=httpx.MockTransport(answer)) as client:
            return (await client.models.set_bitwise("net")).bitwise

    models = answering(answer).models
    assert (models.set_bitwise("net").bitwise, models.set_bitwise("net", False).bitwise) == (True, False)
    assert not models.get("net").bitwise, "an earlier release says nothing of it"
    assert asyncio.run(set_it())


def test_how_a_model_is_served_is_changed_as_it_is_named() -> None:
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(
            200, json={"name": "net", "default_version": None, "versions": [], "aliases": [], **sent[-1]}
        )

    models = answering(answer).models
    assert models.set_serving("net", idle_s=600.0).idle_s == 600.0
    assert models.set_serving("net", idle_s=None, bitwise=True).bitwise
    assert models.set_serving("net", pinned=True).pinned
    assert models.set_serving("net", threads=4).threads == 4
    assert models.set_serving("net", replicas=2).replicas == 2
    assert models.set_serving("net", replicas=None).replicas is None
    assert sent == [
        {"idle_s": 600.0},
        {"idle_s": None, "bitwise": True},
        {"pinned": True},
        {"threads": 4},
        {"replicas": 2},
        {"replicas": None},
    ]


def test_earlier_traces_are_listed_newest_first_and_deleted() -> None:
    seen: list[tuple[str, str]] = []
    entries = [{"id": f"{number:032}", "state": "failed", "stage": "done", "progress": 1.0} for number in range(103)]

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, request.url.raw_path.decode()))
        first = int(request.url.params.get("cursor", 0))
        last = first + int(request.url.params.get("limit", 0))
        page = {"trace_requests": entries[first:last], "next_cursor": str(last)}
        return httpx.Response(200, json=page) if request.method == "GET" else httpx.Response(204)

    async def list_two() -> list[str]:
        async with AsyncClient("http://service", transport=httpx.MockTransport(answer)) as client:
            return [trace.state for trace in await client.list_traces(2)]

    listed = answering(answer).list_traces(102, state="failed", model="net")
    listed[0].delete()

    assert [trace.id for trace in listed] == [one["id"] for one in entries[:102]]
    assert seen == [
        ("GET", "/trace?limit=100&state=failed&model=net"),
        ("GET", "/trace?limit=2&state=failed&model=net&cursor=100"),
        ("DELETE", f"/trace/{entries[0]['id']}"),
    ]
    assert asyncio.run(list_two()) == ["failed", "failed"]
