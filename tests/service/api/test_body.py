"""Bodies: what is read of them, and what is not even tried."""

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from types import SimpleNamespace

import orjson
import pytest
from fastapi import Request
from starlette.types import Message, Receive, Scope, Send

from service.api.context import AppContext
from service.api.http.body import CONTAINERS_MAX, DEPTH_MAX, MEMBERS_MAX, parse_json, read_batches, read_text
from service.api.http.held import Held
from service.domain.errors import MalformedJson


def test_json_may_nest_as_deep_as_it_says() -> None:
    assert parse_json(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)

    with pytest.raises(MalformedJson) as raised:
        parse_json(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1))

    assert raised.value.facts["limit"] == DEPTH_MAX


def test_json_may_have_as_many_members_as_it_says() -> None:
    half = b"{" + b",".join(b'"%d":0' % number for number in range(MEMBERS_MAX // 2)) + b"}"
    assert parse_json(b"[" + half + b"]")

    with pytest.raises(MalformedJson) as raised:
        parse_json(b"[" + half + b"," + half + b',{"one":"more"}]')

    assert raised.value.facts["limit"] == MEMBERS_MAX


def test_long_lists_of_numbers_are_no_members() -> None:
    assert len(parse_json(b"[" + b"0," * MEMBERS_MAX * 2 + b"0]")) == MEMBERS_MAX * 2 + 1  # type: ignore[arg-type]


def test_lists_are_counted_before_they_are_made() -> None:
    with pytest.raises(MalformedJson) as raised:
        parse_json(b"[" + b"[]," * CONTAINERS_MAX + b"[]]")

    assert raised.value.facts["limit"] == CONTAINERS_MAX


def test_brackets_in_a_text_are_no_lists() -> None:
    text = "[{" * CONTAINERS_MAX + '\\"'

    assert parse_json(orjson.dumps([text])) == [text]


async def read_in_batches(request: Request, max_bytes: int) -> bytes:
    return b"".join([batch async for batch in read_batches(request, max_bytes)])


@pytest.mark.parametrize("read_body", [read_text, read_in_batches])
@pytest.mark.parametrize(
    "lengths", [[2] * 50_000, [1, 5000] * 40, [5000, 1, 2], [300_000], []], ids=lambda it: str(it[:3])
)
def test_a_body_takes_its_own_bytes_in_whatever_pieces_it_comes(
    context: AppContext, lengths: list[int], read_body: Callable[[Request, int], Awaitable[bytes]]
) -> None:
    """Two bytes in an object of their own are a hundred, and those are not counted as held."""
    whole = bytes(range(251)) * (sum(lengths) // 251 + 1)
    starts = [sum(lengths[:at]) for at in range(len(lengths))] if len(lengths) < 100 else range(0, sum(lengths), 2)
    pieces = (whole[start : start + length] for start, length in zip(starts, lengths, strict=True))
    messages = chain(
        ({"type": "http.request", "body": piece, "more_body": True} for piece in pieces),
        repeat({"type": "http.request"}),
    )
    read: list[bytes] = []

    async def receive() -> Message:
        await asyncio.sleep(0)
        return next(messages)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        read.append(await read_body(Request(scope, receive), 10**6))

    async def refuse(_: Message) -> None:
        raise AssertionError("nothing is said")

    async def ask() -> None:
        scope: Scope = {"type": "http", "headers": [], "app": SimpleNamespace(state=SimpleNamespace(context=context))}
        await Held(app)(scope, receive, refuse)

    tracemalloc.start()
    asyncio.run(ask())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert read == [whole[: sum(lengths)]]
    assert peak < 4 * sum(lengths) + 500_000
