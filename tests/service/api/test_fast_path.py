"""The fast path and the app alone, side by side on connections that are none: the same bytes come back from both."""

import asyncio
import gzip
import io
import json
import logging
import os
import re
import signal
import struct
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.numpy
import uvicorn
import uvloop
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from service.api import fast_request, known_keys
from service.api.app import create_app
from service.api.context import AppContext
from service.api.fast_path import FastPath
from service.api.http.connection import BoundedProtocol, bounded_protocol
from service.api.http.places import Place, Places
from service.api.http.upgrades import PlainParser
from service.domain.api_key import Scope
from service.domain.trace_request import TraceRequest
from service.sandbox.zygote import Zygote
from service.serving import inference
from service.serving.inference import Inference
from service.serving.pool import Pool
from service.storage.database import Store
from tests.conftest import PATIENCE_S, NewStore
from tests.pool_limits import pool_limits
from tests.service.api.conftest import Register, Tracer, make_context, start_engine
from tests.service.api.test_uvicorn import Transport
from tracehouse.contract.contract import Batch, Contract, MethodClaim
from tracehouse.contract.input_spec import ValueRange
from tracehouse.contract.regions import Region, Span
from tracehouse.tensors.tensor import Datatype, TensorSpec

X = [1.0, -2.0]
TENSOR = {"name": "input", "datatype": "FP32", "shape": [1, 2], "data": X}
ANSWERED = (b"HTTP/1.1 200 OK",)


class Counted(FastPath):
    """Counts what it answers, and what it hands over."""

    def __init__(self, context: AppContext, *, has_cors: bool = False) -> None:
        super().__init__(context, has_cors=has_cors)
        self.replies = self.handed_over = 0

    def read(self, scope: Any) -> Any:
        head = super().read(scope)
        return None if head is None else _CountedHead(self, head)


class _CountedHead(NamedTuple):
    path: Counted
    head: Any

    def takes(self, body_bytes: int) -> bool:
        return bool(self.head.takes(body_bytes))

    def request(self, place: Place, client: str) -> Any:
        return _CountedRequest(self.path, self.head.request(place, client))


class _CountedRequest(NamedTuple):
    path: Counted
    request: Any

    @property
    def state(self) -> Any:
        return self.request.state

    def answer(self, body: bytes, reply: Callable[..., object], hand_over: Callable[[], object]) -> None:
        def counted_reply(*given: Any) -> None:
            self.path.replies += 1
            reply(*given)

        def counted_hand_over() -> None:
            self.path.handed_over += 1
            hand_over()

        self.request.answer(body, counted_reply, counted_hand_over)

    def leave(self) -> None:
        self.request.leave()


class Paths:
    """One app, and connections to it with the fast path and without, all in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, app: FastAPI, *, has_cors: bool = False) -> None:
        self._loop = loop
        self.app = app
        self.fast = Counted(app.state.context, has_cors=has_cors)
        self._configs = {with_it: self._configure(self.fast if with_it else None) for with_it in (True, False)}

    def _configure(self, fast_path: FastPath | None) -> uvicorn.Config:
        places = Places(connections_max=1000, address_max=1000)
        kind = bounded_protocol(idle_s=20, head_s=20, places=places, fast_path=fast_path)
        config = uvicorn.Config(self.app, http=kind, ws="none", log_config=None)
        config.load()
        return config

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))

    async def open(self, *, fast: bool) -> tuple[BoundedProtocol, Transport]:
        config = self._configs[fast]
        made: BoundedProtocol = config.http_protocol_class(config, ServerState(), {})  # type: ignore[call-arg,assignment]
        transport = Transport()
        made.connection_made(transport)
        return made, transport

    async def exchange(self, pieces: Sequence[bytes], *, fast: bool, times: int = 1) -> bytes:
        """What comes back for these pieces on a connection of their own, where they are sent so many times."""
        made, transport = await self.open(fast=fast)
        for _ in range(times):
            for piece in pieces:
                if not transport.closing:
                    made.data_received(piece)
            await until(lambda: is_quiet(made, transport))
        made.connection_lost(None)
        return masked(transport.written)

    def both(self, *pieces: bytes) -> bytes:
        """What comes back, which is the same on both paths, also where it is sent again."""
        said = self._same(pieces, 1)
        self._same(pieces, 2)
        return said

    def answers_fast(self, *pieces: bytes, warm: bool = True) -> bool:
        """Whether the fast path answers all of it by itself, each time, with what the app alone answers."""
        if warm:
            self.run(self.exchange(pieces, fast=False))
        return all(self._answers_fast(pieces, times) for times in (1, 2))

    def one_by_one(self, sent: Sequence[bytes]) -> list[bytes]:
        """What comes back for each of these on one connection, once the one before is answered: the same on both."""
        alone = self.run(self._ask_each(sent, fast=False))
        assert self.run(self._ask_each(sent, fast=True)) == alone
        return alone

    async def _ask_each(self, sent: Sequence[bytes], *, fast: bool) -> list[bytes]:
        made, transport = await self.open(fast=fast)
        said = []
        for each in sent:
            transport.written = b""
            made.data_received(each)
            await until(lambda: is_quiet(made, transport))
            said.append(masked(transport.written))
        return said

    def _answers_fast(self, pieces: Sequence[bytes], times: int) -> bool:
        replies = self.fast.replies
        said = self._same(pieces, times)
        return self.fast.replies - replies == said.count(b"HTTP/1.1 ")

    def _same(self, pieces: Sequence[bytes], times: int) -> bytes:
        alone = self.run(self.exchange(pieces, fast=False, times=times))
        fast = self.run(self.exchange(pieces, fast=True, times=times))
        assert fast == alone
        return alone


def is_quiet(made: BoundedProtocol, transport: Transport) -> bool:
    """Whether nothing more comes back unless more is sent."""
    if transport.closing:
        return True
    return made._awaits_request() or (made.cycle.more_body and not made.pipeline)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - it is the state of what is tested
        await asyncio.sleep(0)


def masked(written: bytes) -> bytes:
    """What was written, without the ids that are made anew for each request."""
    return re.sub(rb'(x-request-id: |"request_id": ")[0-9a-f]{32}', rb"\1MADE", written)


def request(path: str, body: bytes, *lines: str, method: str = "POST") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


def asking(body: Any = None, path: str = "/infer/relu", *lines: str) -> bytes:
    return request(path, json.dumps(body or {"inputs": [TENSOR]}).encode(), "Content-Type: application/json", *lines)


def binary(path: str = "/v2/models/relu/infer", *lines: str, **members: Any) -> bytes:
    tensor = {**TENSOR, "parameters": {"binary_data_size": 8}}
    del tensor["data"]
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}, **members}).encode()
    return request(path, head + struct.pack("<2f", *X), f"Inference-Header-Content-Length: {len(head)}", *lines)


def tensors(kind: str, body: bytes, *lines: str, path: str = "/infer/relu") -> bytes:
    return request(path, body, f"Content-Type: {kind}", *lines)


def numpy_file(save: Callable[..., object], *arrays: Any, **named: Any) -> bytes:
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


ROW = np.array([X], np.float32)
RAW = ROW.tobytes()
SAFETENSORS = safetensors.numpy.save({"input": ROW})
NPZ, PACKED_NPZ = numpy_file(np.savez, input=ROW), numpy_file(np.savez_compressed, input=ROW)
NPY = numpy_file(np.save, ROW)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = uvloop.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("fast"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def context(
    store: Store,
    loop: asyncio.AbstractEventLoop,
    torch_zygote: Zygote,
    tmp_path_factory: pytest.TempPathFactory,
    models: None,
) -> Iterator[AppContext]:
    """What was read is remembered for ever, unless this process writes: no outcome hangs on how fast the machine is."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inference, "_MODEL_AGE_S", float("inf"))
        patched.setattr(known_keys, "_KEY_AGE_S", float("inf"))
        engine = start_engine(store, Tracer(store))
        pool = Pool(torch_zygote, store.blobs, pool_limits(waiting_max=100))
        yield replace(make_context(store, engine, tmp_path_factory.mktemp("state")), inference=Inference(store, pool))
    loop.run_until_complete(pool.close(grace_s=0))
    engine.stop()


@pytest.fixture(autouse=True)
def _all_have_ended(loop: asyncio.AbstractEventLoop, context: AppContext) -> Iterator[None]:
    """Whichever way a request took, it is active no more."""
    yield
    loop.run_until_complete(until(lambda: context.exchanges.active.total() == 0))


@pytest.fixture(scope="module")
def paths(loop: asyncio.AbstractEventLoop, context: AppContext) -> Paths:
    return Paths(loop, create_app(context))


@pytest.fixture(scope="module")
def locked(loop: asyncio.AbstractEventLoop, context: AppContext) -> Paths:
    """The same where keys are required."""
    return Paths(loop, create_app(replace(context, keys_required=True)))


@pytest.fixture(scope="module")
def models(store: Store, trace: Any, register: Register) -> None:
    """`relu` for up to 2,000 rows of two, of which 8 may be joined; `looks_up` for ids from 0 to 3; `open`, `draws`."""
    import torch

    class LooksUp(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.arange(4.0))

        def forward(self, ids):
            return self.table[ids]

    class Draws(torch.nn.Module):
        def forward(self, x):
            return x + torch.randn_like(x)

    claim = MethodClaim(
        shapes={"input": ("batch", 2)},
        fixed={"input": {"1": "model"}},
        regions=[Region(spans={"batch": [Span(low=0, high=2000)]}, basis="proven")],
        batch=Batch(symbol="batch", up_to=8, inputs={"input": 0}, outputs={"output": 0}),
    )
    relu = trace(store.blobs, torch.nn.ReLU(), torch.zeros(2, 2))
    answers = [
        ({"batch": rows}, [TensorSpec(name="output", datatype=Datatype.FP32, shape=(rows, 2))]) for rows in (3, 5)
    ]
    method = relu.contract.method("forward").with_claim(claim, answers)
    register("relu", relu.model_copy(update={"contract": Contract(methods={"forward": method})}))
    register("open", relu.model_copy(update={"contract": relu.contract.model_copy(update={"open": True})}))
    looks_up = trace(store.blobs, LooksUp(), torch.zeros(2, dtype=torch.int64))
    ranged = MethodClaim(shapes={"ids": (2,)}, values={"ids": ValueRange(low=0, high=3, basis="tested")})
    method = looks_up.contract.method("forward").with_claim(ranged)
    register("looks_up", looks_up.model_copy(update={"contract": Contract(methods={"forward": method})}))
    register("raises", looks_up)
    register("draws", trace(store.blobs, Draws(), torch.zeros(1, 2), seed=1))


TAKEN = {
    "protocol JSON": asking(),
    "by name": asking({"inputs": {"input": [X]}}),
    "a call": asking({"args": [[X]]}),
    "a call by name": asking({"kwargs": {"input": [X]}}),
    "an id": asking({"id": "sieben ü :", "inputs": [TENSOR]}),
    "an output": asking({"inputs": [TENSOR], "outputs": [{"name": "output"}]}),
    "several rows": asking({"args": [[X, X, X]]}),
    "no rows": asking({"inputs": [{**TENSOR, "shape": [0, 2], "data": []}]}),
    "a seed": asking({"inputs": [TENSOR], "parameters": {"seed": 7}}),
    "a seed for what draws": asking({"args": [[X]], "parameters": {"seed": 7}}, "/infer/draws"),
    "NaN": asking({"args": [[["NaN", "-Infinity"]]]}),
    "values in their range": asking({"args": [[0, 3]]}, "/infer/looks_up"),
    "a version": asking(None, "/infer/relu:1"),
    "no content type": request("/infer/relu", json.dumps({"args": [[X]]}).encode()),
    "a request id": asking(None, "/infer/relu", "X-Request-ID: mine"),
    "a request id that is none": asking(None, "/infer/relu", "X-Request-ID: not mine"),
    "closing": asking(None, "/infer/relu", "Connection: close"),
    "an upgrade": asking(None, "/infer/relu", "Connection: upgrade", "Upgrade: websocket"),
    "bytes": tensors("application/octet-stream", RAW),
    "bytes of several rows": tensors("application/octet-stream", RAW * 3),
    "bytes of no rows": tensors("application/octet-stream", b""),
    "bytes of integers": tensors("application/octet-stream", struct.pack("<2q", 0, 3), path="/infer/looks_up"),
    "bytes, bytes": tensors("application/octet-stream", RAW, "Accept: application/octet-stream"),
    ".npy, .npy": tensors("application/x-npy", NPY, "Accept: application/x-npy"),
    ".npz, .npz": tensors("application/x-npz", NPZ, "Accept: application/x-npz"),
    "safetensors": tensors("application/vnd.safetensors", SAFETENSORS),
    "safetensors, safetensors": tensors(
        "application/x-safetensors", SAFETENSORS, "Accept: application/x-safetensors;q=0.9, text/html"
    ),
    "bytes, several replies": tensors(
        "application/octet-stream", RAW, "Accept: image/png, application/vnd.safetensors", path="/infer/relu:1"
    ),
    "JSON, bytes": asking({"id": "sieben ü", "args": [[X]]}, "/infer/relu", "Accept: application/octet-stream"),
    "a seed in JSON, .npz": asking(
        {"args": [[X]], "parameters": {"seed": 7}}, "/infer/draws", "Accept: application/x-npz"
    ),
    "OIP JSON": asking(None, "/v2/models/relu/infer"),
    "OIP JSON, a version": asking(None, "/v2/models/relu/versions/1/infer"),
    "OIP, several encodings": asking(None, "/v2/models/relu/infer", "Accept-Encoding: gzip, deflate, br"),
    "OIP binary": binary(),
    "OIP binary in, JSON out": binary(parameters={}),
    "OIP a seed": binary(parameters={"seed": 3, "binary_data_output": True}),
    "OIP one tensor alone": request(
        "/v2/models/relu/infer", struct.pack("<2f", *X), "Inference-Header-Content-Length: 0"
    ),
}

HANDED_OVER = {
    "another method": request("/infer/relu", b"", method="GET"),
    "a query": asking(None, "/infer/relu?method=forward"),
    "a method that is not there": asking(None, "/infer/relu?method=other"),
    "an unknown model": asking(None, "/infer/other"),
    "an unknown version": asking(None, "/infer/relu:9"),
    "no name": asking(None, "/infer/relu@"),
    "an escaped path": asking(None, "/infer/rel%75%2f"),
    "a longer path": asking(None, "/infer/relu/"),
    "a model in the body": asking({"model": "relu", "args": [[X]]}, "/infer"),
    "a header that is not known": asking(None, "/infer/relu", "X-Forwarded-For: 10.0.0.1"),
    "an origin": asking(None, "/infer/relu", "Origin: http://elsewhere"),
    "a header twice": asking(None, "/infer/relu", "X-Request-ID: one", "X-Request-ID: two"),
    "another host": asking().replace(b"Host: localhost", b"Host: example.org"),
    "no host": asking().replace(b"Host: localhost\r\n", b""),
    "two hosts": asking(None, "/infer/relu", "Host: localhost"),
    "another content type": asking().replace(b"application/json", b"text/plain"),
    "a site of others": asking(None, "/infer/relu", "Sec-Fetch-Site: cross-site"),
    "a packed body": request("/v2/models/relu/infer", gzip.compress(b"{}"), "Content-Encoding: gzip"),
    "a packed reply": asking(None, "/v2/models/relu/infer", "Accept-Encoding: gzip"),
    "expectations": asking(None, "/infer/relu", "Expect: 100-continue"),
    "HTTP/1.0": asking().replace(b"HTTP/1.1", b"HTTP/1.0"),
    "HTTP/1.0 kept alive": asking(None, "/infer/relu", "Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "chunked": b"POST /infer/relu HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'11\r\n{"args":[[[1,-2]]\r\n2\r\n]}\r\n0\r\n\r\n',
    "a large body": asking({"args": [[X] * 9000]}),
    "an answer that is large": asking({"args": [[X] * 1500]}),
    "no JSON": request("/infer/relu", b"{"),
    "no body": request("/infer/relu", b""),
    "a member twice": request("/infer/relu", b'{"args": [[[1, 2]]], "args": [[[3, 4]]]}'),
    "nested deeply": request("/infer/relu", b'{"args": ' + b"[" * 200 + b"]" * 200 + b"}"),
    "an unknown member": asking({"inputs": [TENSOR], "instances": 1}),
    "another shape": asking({"args": [[[1.0, 2.0, 3.0]]]}),
    "too many rows": asking({"args": [[X] * 2001]}),
    "another datatype": asking({"inputs": [{**TENSOR, "datatype": "FP64"}]}),
    "an input twice": asking({"inputs": [TENSOR, TENSOR]}),
    "an unknown output": asking({"inputs": [TENSOR], "outputs": [{"name": "other"}]}),
    "a value out of its range": asking({"args": [[0, 4]]}, "/infer/looks_up"),
    "what the artifact raises on": asking({"args": [[0, 4]]}, "/infer/raises"),
    "sizes never tried": asking({"args": [[X]]}, "/infer/open"),
    "bytes of no whole row": tensors("application/octet-stream", RAW[:-4]),
    "bytes and a query": tensors("application/octet-stream", RAW, path="/infer/relu?shape=1,2"),
    "bytes of a value out of its range": tensors(
        "application/octet-stream", struct.pack("<2q", 0, 4), path="/infer/looks_up"
    ),
    "a packed .npz": tensors("application/x-npz", PACKED_NPZ),
    "no .npz": tensors("application/x-npz", NPZ[:-30]),
    "no .npy": tensors("application/x-npy", NPY[:40]),
    "an .npy of objects": tensors("application/x-npy", numpy_file(np.save, np.array([{}]), allow_pickle=True)),
    "no safetensors": tensors("application/vnd.safetensors", SAFETENSORS[:-1]),
    "safetensors of another name": tensors("application/vnd.safetensors", safetensors.numpy.save({"other": ROW})),
    "safetensors of no name": tensors("application/vnd.safetensors", safetensors.numpy.save({})),
    "a picture": tensors("image/png", b"\x89PNG\r\n\x1a\n"),
    "bytes with parameters": tensors("application/octet-stream; v=1", RAW),
    "a reply that there is not": tensors("application/octet-stream", RAW, "Accept: text/html"),
    "OIP a timeout": asking({"inputs": [TENSOR], "parameters": {"timeout": 10**9}}, "/v2/models/relu/infer"),
    "OIP a sequence": asking({"inputs": [TENSOR], "parameters": {"sequence_id": 4}}, "/v2/models/relu/infer"),
    "OIP a length beyond the body": request("/v2/models/relu/infer", b"{}", "Inference-Header-Content-Length: 9"),
    "OIP a length that is none": request("/v2/models/relu/infer", b"{}", "Inference-Header-Content-Length: -1"),
    "OIP bytes left over": request(
        "/v2/models/relu/infer", b'{"inputs": []}' + b"1234567", "Inference-Header-Content-Length: 14"
    ),
    "OIP wrong sizes": binary(inputs=[{**TENSOR, "parameters": {"binary_data_size": 4}}]),
}


@pytest.mark.parametrize("sent", TAKEN.values(), ids=TAKEN.keys())
def test_what_the_fast_path_answers_is_what_the_app_answers(paths: Paths, sent: bytes) -> None:
    assert paths.answers_fast(sent)
    assert paths.both(sent).startswith(ANSWERED)


@pytest.mark.parametrize("sent", HANDED_OVER.values(), ids=HANDED_OVER.keys())
def test_what_is_handed_over_is_answered_as_it_came(paths: Paths, sent: bytes) -> None:
    assert not paths.answers_fast(sent)
    assert paths.both(sent).startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize("step", [1, 7, 60])
def test_a_request_may_come_in_pieces(paths: Paths, step: int) -> None:
    sent = asking()
    paths.both(sent)

    assert paths.answers_fast(*(sent[at : at + step] for at in range(0, len(sent), step)))


def test_requests_that_follow_one_another_are_answered_in_their_order(paths: Paths) -> None:
    sent = [asking({"id": str(number), "args": [[[number, 1.0]]]}) for number in range(6)]
    sent[3] = request("/livez", b"", method="GET")
    said = paths.both(b"".join(sent))

    assert re.findall(rb'"id":"(\d)"', said) == [b"0", b"1", b"2", b"4", b"5"]
    assert said.count(b"HTTP/1.1 200 OK") == 6


def test_connections_are_answered_each_for_itself_and_joined_as_the_certificate_allows(paths: Paths) -> None:
    """Nine rows at once, of which eight may be joined, and a request among them that the certificate is not about."""
    paths.both(asking())

    async def ask_all() -> list[bytes]:
        opened = [await paths.open(fast=True) for _ in range(20)]
        for number, (made, _) in enumerate(opened):
            made.data_received(asking({"id": str(number), "args": [[[number, -number]] * (1 + number % 2)]}))
        await until(lambda: all(is_quiet(*each) for each in opened))
        return [transport.written for _, transport in opened]

    replies, before = paths.fast.replies, executions(paths)
    for number, said in enumerate(paths.run(ask_all())):
        document = json.loads(said.partition(b"\r\n\r\n")[2])
        assert document["id"] == str(number)
        assert document["outputs"][0]["data"] == [float(number), 0.0] * (1 + number % 2)
    assert paths.fast.replies - replies == 20
    assert 30 / 8 <= executions(paths) - before < 20


def executions(paths: Paths) -> int:
    context: AppContext = paths.app.state.context
    return context.inference.statistics.of(("default", "relu", 1)).executions


def test_the_same_head_is_parsed_once_on_a_connection(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = count_parsed(monkeypatch)
    paths.both(asking())
    parsed.clear()
    bodies = [[X], [[3.0, 4.0], [-5.0, 6.25]], [[-7.0, 8.5]]]

    async def send() -> list[Any]:
        made, transport = await paths.open(fast=True)
        answers = []
        for body in bodies:
            transport.written = b""
            made.data_received(asking({"args": [body]}))
            await until(lambda: is_quiet(made, transport))
            answers.append(json.loads(transport.written.split(b"\r\n\r\n")[1])["outputs"][0]["data"])
        return answers

    assert paths.run(send()) == [[1.0, 0.0], [3.0, 4.0, 0.0, 6.25], [0.0, 8.5]]
    assert parsed == [asking({"args": [bodies[0]]})]


BODIES_WITH_THE_SAME_HEAD = [
    "1.0, 2.0", "-3,4", "1.0", "1.0, 2.0, 3.0", "", "[1.0, 2.0]", '1.0], "name": ["input"', '1.0], "shape": [2.0',
    '"NaN", 2.0', '"two", 2.0', "true, 2.0", "null, 2.0", "1e39, 2.0", "1e999, 2.0", "{}, 2.0", '{"a": 1, "a": 2}, 2.0',
    "1.0,, 2.0", "1.0, 2.0,", "01, 2.0", "NaN, 2.0", "1.0 2.0", "1.0, 2.0]", "1.0, 2.0 ", '"]", 2.0', "5.0, 6.0",
]  # fmt: skip


RAW_TYPE = "application/octet-stream"


@pytest.mark.parametrize(
    "send",
    [
        pytest.param(lambda raw: tensors(RAW_TYPE, raw, f"Accept: {RAW_TYPE}"), id="bytes alone"),
        pytest.param(lambda raw: binary().replace(RAW, raw), id="bytes behind JSON"),
    ],
)
def test_bytes_that_come_again_are_those_of_their_own_request(paths: Paths, send: Callable[[bytes], bytes]) -> None:
    rows = [[1.0, -2.0], [3.0, 4.0], [-5.0, 6.0], [-7.0, -8.0]]

    said = paths.one_by_one([send(struct.pack("<2f", *row)) for row in rows])
    assert [struct.unpack("<2f", each[-8:]) for each in said] == [(1.0, 0.0), (3.0, 4.0), (0.0, 6.0), (0.0, 0.0)]


def numpy_archive(row: Sequence[float]) -> bytes:
    return numpy_file(np.savez, input=np.array([row], np.float32))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", lambda row: json.dumps({"inputs": [{**TENSOR, "data": [*row]}]}).encode()),
        ("application/json", lambda row: json.dumps({"args": [[[*row]]]}).encode()),
        ("application/x-npz", numpy_archive),
    ],
)
@pytest.mark.parametrize("said_bytes", [None, "many"])
def test_the_length_of_json_before_bytes_says_nothing_to_a_route_that_has_none(
    paths: Paths, caplog: pytest.LogCaptureFixture, kind: str, body: Callable[[Sequence[float]], bytes], said_bytes: Any
) -> None:
    """Whatever it says: what ends the body has as many bytes as the tensor, and is none."""
    bodies = [body(row) for row in ((1.0, -2.0), (3.0, 4.0), (-5.0, 6.0))]
    sent = [tensors(kind, one, f"Inference-Header-Content-Length: {said_bytes or len(one) - 8}") for one in bodies]

    paths.both(sent[0])
    replies = paths.fast.replies
    said = paths.one_by_one(sent)
    assert [json.loads(each.partition(b"\r\n\r\n")[2])["outputs"][0]["data"] for each in said] == [
        [1.0, 0.0], [3.0, 4.0], [0.0, 6.0],
    ]  # fmt: skip
    assert paths.fast.replies - replies == len(sent)
    assert "the fast path failed" not in caplog.text


@pytest.mark.parametrize("path", ["/infer/relu", "/v2/models/relu/infer"])
@pytest.mark.parametrize("start", ['{"inputs": [{"name": "input", "shape": [1, 2], "datatype": "FP32", "data": ['])
@pytest.mark.parametrize("end", ["]}]}", ' ] } ], "id": "one" }'])
def test_bodies_that_differ_in_their_values_are_answered_as_in_the_app(
    paths: Paths, path: str, start: str, end: str
) -> None:
    """One after the other on one connection, where the values of each are read between what surrounded the last."""
    sent = [request(path, f"{start}{items}{end}".encode()) for items in BODIES_WITH_THE_SAME_HEAD]

    said = paths.one_by_one(sent)
    assert [each.startswith(ANSWERED) for each in said].count(True) == 6
    assert b'"data":[5.0,6.0]' in said[-1]


def test_a_repeated_body_is_read_by_the_contract_of_the_model_that_answers(
    locked: Paths, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bodies are alike, and the second one's model is another by then."""
    known = bearer(store, requests_per_minute=1_000_000)
    sent = asking({"inputs": [TENSOR]}, "/infer/relu", known)
    locked.both(sent)
    read: list[bytes] = []
    parse = fast_request.parse_json

    def count(text: bytes) -> Any:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(fast_request, "parse_json", count)

    async def send(*changes: bool) -> list[int]:
        made, transport = await locked.open(fast=True)
        counts = []
        for changes_model in changes:
            if changes_model:
                forget_methods(locked)
            read.clear()
            made.data_received(sent)
            await until(lambda: is_quiet(made, transport))
            counts.append(len(read))
        return counts

    assert locked.run(send(False, False, True, False)) == [1, 0, 0, 1]  # the app answers the third, which looks it up


def forget_methods(paths: Paths) -> None:
    """Have the model looked up anew with all that is worked out of its contract, as after another promotion."""
    context: AppContext = paths.app.state.context
    context.inference._models._remembered.clear()
    context.inference._methods.cache_clear()  # type: ignore[attr-defined]


def head_and_body(sent: bytes) -> tuple[bytes, bytes]:
    head, end, body = sent.partition(b"\r\n\r\n")
    return head + end, body


@pytest.mark.parametrize("is_split", [True, False])
def test_a_body_that_comes_after_its_head_is_answered_with_it(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, *, is_split: bool
) -> None:
    """Most clients in Python send it so. One that comes in two pieces is parsed as any other."""
    parsed = count_parsed(monkeypatch)
    bodies = [[X], [[3.0, 4.0], [-5.0, 6.25]], [[-7.0, 8.5]]]

    async def send(*, fast: bool) -> bytes:
        made, transport = await paths.open(fast=fast)
        for body in bodies:
            head, rest = head_and_body(asking({"args": [body]}))
            pieces = [head, rest[:5], rest[5:]] if is_split else [head, rest]
            for piece in pieces:
                made.data_received(piece)
                await asyncio.sleep(0)
            await until(lambda: is_quiet(made, transport))
        return masked(transport.written)

    alone = paths.run(send(fast=False))
    parsed.clear()
    assert paths.run(send(fast=True)) == alone
    assert len(parsed) == (1 + 3 * 2 if is_split else 2)


def count_parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    parsed: list[bytes] = []
    feed = PlainParser.feed_data

    def count(parser: PlainParser, data: bytes) -> None:
        parsed.append(data)
        feed(parser, data)

    monkeypatch.setattr(PlainParser, "feed_data", count)
    return parsed


async def primed(paths: Paths, *, fast: bool) -> tuple[BoundedProtocol, Transport, bytes, bytes]:
    """A connection with an answer behind it, and the head and the body of the next request."""
    made, transport = await paths.open(fast=fast)
    made.data_received(asking())
    await until(lambda: is_quiet(made, transport))
    transport.written = b""
    return made, transport, *head_and_body(asking())


def test_a_repeated_head_whose_body_does_not_come_is_left_to_the_app(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.http.connection.WHOLE_WITHIN_S", 0.0)
    monkeypatch.setattr("service.api.http.fast_exchange.WHOLE_WITHIN_S", 0.0)

    async def send() -> bytes:
        made, transport, head, body = await primed(paths, fast=True)
        made.data_received(head)
        await until(lambda: bool(made.tasks))
        made.data_received(body)
        await until(lambda: is_quiet(made, transport))
        return transport.written

    paths.both(asking())
    replies = paths.fast.replies
    assert paths.run(send()).startswith(ANSWERED)
    assert paths.fast.replies == replies + 1  # to the request before


def test_the_server_waits_for_the_body_of_a_repeated_head_before_it_stops(paths: Paths) -> None:
    async def stop(*, fast: bool) -> bytes:
        made, transport, head, body = await primed(paths, fast=fast)
        made.data_received(head)
        made.shutdown()
        made.data_received(body)
        await until(lambda: transport.closing)
        return masked(transport.written)

    said = paths.run(stop(fast=True))
    assert said.startswith(ANSWERED)
    assert said == paths.run(stop(fast=False))


def test_a_repeated_head_whose_place_is_needed_is_told_so(paths: Paths) -> None:
    async def evict(*, fast: bool) -> bytes:
        made, transport, head, _ = await primed(paths, fast=fast)
        made.data_received(head)
        made._make_room()
        made.connection_lost(None)
        return masked(transport.written)

    said = paths.run(evict(fast=True))
    assert said.startswith(b"HTTP/1.1 503 ")
    assert said == paths.run(evict(fast=False))


@pytest.mark.parametrize("fast", [True, False])
def test_a_client_that_goes_after_a_repeated_head_is_logged_as_gone(
    paths: Paths, caplog: pytest.LogCaptureFixture, *, fast: bool
) -> None:
    async def leave() -> None:
        made, transport, head, _ = await primed(paths, fast=fast)
        caplog.clear()
        made.data_received(head)
        transport.close()
        made.connection_lost(None)
        await until(lambda: not made.tasks)

    caplog.set_level(logging.INFO, "service.api.http.access_log")
    paths.both(asking())
    paths.run(leave())
    assert [record.status for record in caplog.records if hasattr(record, "status")] == [499]


MORE_BEHIND_IT = {
    "another request": [asking({"args": [[[9.0, 9.0]]]})],
    "the same request": [asking()],
    "a refused request": [asking({"args": [[[1.0]]]})],
    "a request for something else": [b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    "the beginning of one": [asking()[:40]],
    "bytes that are no HTTP": [b"\x00\xff\r\n\r\n"],
    "several": [asking(), binary(), asking({"args": [[[1.0]]]}), asking()],
}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("behind", MORE_BEHIND_IT.values(), ids=MORE_BEHIND_IT)
def test_what_comes_behind_a_repeated_head_is_answered_in_its_order(
    paths: Paths, behind: list[bytes], *, at_once: bool
) -> None:
    """While the request is answered that was not parsed, or with it."""
    pieces = [asking() + b"".join(behind)] if at_once else [asking(), *behind]

    async def send(*, fast: bool) -> bytes:
        made, transport = await paths.open(fast=fast)
        made.data_received(asking())
        await until(lambda: is_quiet(made, transport))
        for piece in pieces:
            if not transport.closing:
                made.data_received(piece)
        await until(lambda: is_quiet(made, transport))
        made.connection_lost(None)
        return masked(transport.written)

    said = paths.run(send(fast=True))
    assert said == paths.run(send(fast=False))
    assert said.count(b"HTTP/1.1 200 OK") >= 2


ASKED = asking().partition(b"\r\n\r\n")[2]
LOOKS_LIKE_A_HEAD = b"\r\nContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("body", "pieces"),
    [
        pytest.param(asking(), [asking()], id="it looks like the request before"),
        pytest.param(asking(), [asking()[:40], asking()[40:]], id="it comes in parts"),
        pytest.param(
            LOOKS_LIKE_A_HEAD % 5,
            [LOOKS_LIKE_A_HEAD % 5 + asking(), LOOKS_LIKE_A_HEAD % len(ASKED) + ASKED],
            id="a request comes with its end",
        ),
    ],
)
def test_the_body_of_a_request_that_is_refused_early_is_no_request(
    paths: Paths, body: bytes, pieces: list[bytes]
) -> None:
    """Those before and behind it may be somebody else's, from the same proxy."""
    refused = request("/nowhere", body)[: -len(body)]

    async def send(*, fast: bool) -> list[bytes]:
        made, transport = await paths.open(fast=fast)
        said = []
        for piece in (asking(), refused, *pieces, request("/livez", b"", method="GET")):
            transport.written = b""
            if not transport.closing:
                made.data_received(piece)
            await until(lambda: transport.closing or (made._awaits_request() and is_quiet(made, transport)))
            said.append(masked(transport.written))
        return said

    paths.both(asking())
    said = paths.run(send(fast=True))
    assert said == paths.run(send(fast=False))
    assert [each[9:12] for each in said[:2]] == [b"200", b"404"]


def test_a_request_that_was_not_parsed_is_answered_before_the_server_stops(paths: Paths) -> None:
    async def stop(*, fast: bool) -> bytes:
        made, transport = await paths.open(fast=fast)
        made.data_received(asking())
        await until(lambda: is_quiet(made, transport))
        transport.written = b""
        made.data_received(asking())
        made.shutdown()
        await until(lambda: transport.closing)
        return masked(transport.written)

    said = paths.run(stop(fast=True))
    assert said.startswith(ANSWERED)
    assert b"\r\nconnection: close\r\n" in said
    assert said == paths.run(stop(fast=False))


def test_a_key_that_is_revoked_opens_nothing_under_a_repeated_head(locked: Paths, store: Store) -> None:
    known = bearer(store, requests_per_minute=1_000_000)
    sent = asking(None, "/infer/relu", known)

    async def send() -> list[bytes]:
        made, transport = await locked.open(fast=True)
        said = []
        for is_revoked in (False, False, True):
            if is_revoked:
                store.api_keys.revoke(known.split()[-1][: len("th_12345678")])
            transport.written = b""
            made.data_received(sent)
            await until(lambda: is_quiet(made, transport))
            said.append(transport.written[:12])
        return said

    assert locked.run(send()) == [b"HTTP/1.1 200", b"HTTP/1.1 200", b"HTTP/1.1 401"]


@pytest.mark.parametrize("earlier", [0, 1], ids=["the first request", "a repeated head"])
def test_a_client_that_goes_costs_nobody_an_answer(paths: Paths, earlier: int) -> None:
    paths.both(asking())

    async def leave() -> bytes:
        leaves, stays = await paths.open(fast=True), await paths.open(fast=True)
        for made, transport in (leaves, stays) * earlier:
            made.data_received(asking())
            await until(partial(is_quiet, made, transport))
            transport.written = b""
        for made, _ in (leaves, stays):
            made.data_received(asking())
        leaves[0].connection_lost(None)
        await until(lambda: is_quiet(*stays))
        assert leaves[1].written == b""
        return stays[1].written

    assert paths.run(leave()).startswith(ANSWERED)


@pytest.mark.parametrize("fast", [True, False])
def test_a_client_that_goes_is_logged_as_gone_and_not_as_a_problem(
    paths: Paths, caplog: pytest.LogCaptureFixture, fast: bool
) -> None:
    paths.both(asking())
    caplog.set_level(logging.INFO, "service.api.http.access_log")
    exchanges = paths.app.state.context.exchanges
    problems, counted = dict(exchanges.problems), len(caplog.records)

    async def leave() -> None:
        made, transport = await paths.open(fast=fast)
        made.data_received(asking())
        if not fast:
            await until(lambda: bool(paths.app.state.context.inference._pool.figures().waiting["cpu"]))
        made.connection_lost(None)
        await until(lambda: len(caplog.records) > counted)
        assert transport.written == b""

    paths.run(leave())

    assert [getattr(record, "status", None) for record in caplog.records[counted:]] == [499]
    assert dict(exchanges.problems) == problems


def test_a_body_that_does_not_come_at_once_is_left_to_the_app(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.http.fast_exchange.WHOLE_WITHIN_S", 0.0)
    sent = asking()

    async def send() -> bytes:
        made, transport = await paths.open(fast=True)
        made.data_received(sent[:-5])
        await until(lambda: made._answered is not None and bool(made.tasks))
        made.data_received(sent[-5:])
        await until(lambda: is_quiet(made, transport))
        return transport.written

    replies = paths.fast.replies
    assert paths.run(send()).startswith(ANSWERED)
    assert paths.fast.replies == replies


def test_a_client_that_does_not_read_is_left_to_the_app(paths: Paths) -> None:
    paths.both(asking())

    async def send() -> None:
        made, transport = await paths.open(fast=True)
        made.pause_writing()
        made.data_received(asking())
        for _ in range(100):
            await asyncio.sleep(0)
        assert transport.written == b""
        made.resume_writing()
        await until(lambda: is_quiet(made, transport))
        assert transport.written.startswith(ANSWERED)

    replies = paths.fast.replies
    paths.run(send())
    assert paths.fast.replies == replies


def test_the_access_log_has_the_same_line(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "service.api.http.access_log")
    assert paths.answers_fast(asking(None, "/infer/relu", "X-Request-ID: mine"))
    lines = [
        {name: getattr(record, name) for name in ("message", "method", "path", "status")} for record in caplog.records
    ]

    assert lines == [{"message": "request", "method": "POST", "path": "/infer/relu", "status": 200}] * 7


def test_replies_vary_where_other_origins_may_ask(loop: asyncio.AbstractEventLoop, context: AppContext) -> None:
    paths = Paths(loop, create_app(context, cors_origins=("http://here",)), has_cors=True)

    assert paths.answers_fast(asking())
    assert b"\r\nvary: Origin\r\n" in paths.both(asking())
    assert not paths.answers_fast(asking(None, "/infer/relu", "Origin: http://here"))


def bearer(store: Store, *scopes: Scope, tenant: str = "default", **limits: Any) -> str:
    _, token = store.api_keys.create("somebody", tenant, scopes or [Scope.INFER], **limits)
    return f"Authorization: Bearer {token}"


def test_a_key_opens_what_it_opens_in_the_app(locked: Paths, store: Store) -> None:
    known = bearer(store, requests_per_minute=1_000_000)

    assert locked.answers_fast(asking(None, "/infer/relu", known))
    said = locked.both(asking(None, "/infer/relu", known))
    assert b"\r\ncache-control: no-store\r\nratelimit-policy: " in said


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (lambda _: "X-Request-ID: a", 401),
        (lambda _: "Authorization: Basic abc", 401),
        (lambda _: "Authorization: Bearer th_aaaaaaaa_" + "a" * 43, 401),
        (lambda store: bearer(store, Scope.READ), 403),
        (lambda store: bearer(store, tenant="others"), 404),
    ],
)
def test_a_key_that_opens_nothing_is_refused_as_in_the_app(
    locked: Paths, store: Store, line: Callable[[Store], str], status: int
) -> None:
    sent = asking(None, "/infer/relu", line(store), "X-Request-ID: same")
    for _ in range(2):
        assert hidden_counts(locked.run(locked.exchange([sent], fast=False))) == hidden_counts(
            locked.run(locked.exchange([sent], fast=True))
        )

    assert locked.run(locked.exchange([sent], fast=True)).startswith(f"HTTP/1.1 {status} ".encode())


def hidden_counts(said: bytes) -> bytes:
    return re.sub(rb"r=\d+;t=\d+", b"", said)


def test_a_key_that_is_revoked_opens_nothing_any_more(locked: Paths, store: Store) -> None:
    known = bearer(store, requests_per_minute=1_000_000)
    assert locked.answers_fast(asking(None, "/infer/relu", known))
    store.api_keys.revoke(known.split()[-1][: len("th_12345678")])

    assert locked.both(asking(None, "/infer/relu", known)).startswith(b"HTTP/1.1 401 ")


def test_each_request_is_counted_once_wherever_it_is_answered(locked: Paths, store: Store) -> None:
    """Also one that is handed over after it was counted, because the artifact raises."""
    known = bearer(store, requests_per_minute=6)
    sent = [
        asking(None, "/infer/relu", known),
        asking({"args": [[0, 1]]}, "/infer/raises", known),
        asking(None, "/infer/relu", known),
        asking({"args": [[0, 9]]}, "/infer/raises", known),
        asking({"args": [[X, [1.0]]]}, "/infer/relu", known),
        asking(None, "/infer/relu", known),
        asking(None, "/infer/relu", known),
    ]
    said = [locked.run(locked.exchange([each], fast=True)) for each in sent]

    assert [int(re.search(rb"r=(\d+);", each)[1]) for each in said] == [5, 4, 3, 2, 1, 0, 0]  # type: ignore[index]
    assert said[-1].startswith(b"HTTP/1.1 429 ")


@pytest.mark.parametrize("path", ["/infer/relu", "/v2/models/relu/infer"])
def test_of_a_key_that_asks_too_often_no_body_is_read(
    locked: Paths, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    known = bearer(store, requests_per_minute=2)
    sent = asking({"inputs": [TENSOR]}, path, known)
    for _ in range(2):
        assert locked.run(locked.exchange([sent], fast=True)).startswith(ANSWERED)

    def read(*_: Any) -> None:
        raise AssertionError("it was read")

    for name in ("_read_easily", "_read_protocol"):
        monkeypatch.setattr(fast_request.FastRequest, name, read)
    said = locked.run(locked.exchange([sent], fast=True))

    assert said.startswith(b"HTTP/1.1 429 ")
    assert "it was read" not in caplog.text


def test_a_remembered_model_and_key_are_asked_without_the_database(
    locked: Paths, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while others submit traces, which print."""
    known = bearer(store, requests_per_minute=1_000_000)
    assert locked.answers_fast(asking(None, "/infer/relu", known))
    [done, *_] = store.trace_requests.list("default", 1).items
    spec = store.trace_requests.get("default", done.id).spec
    again = store.trace_requests.add(TraceRequest.new(spec, {}, torch_version="2", tenant="another"))
    store.events.append(again.id, "log", {"text": "printed"})

    def read(*_: Any) -> None:
        raise AssertionError("it was read")

    for of in (store.models, store.artifacts, store.api_keys):
        monkeypatch.setattr(of._transactions, "read", read)
    assert locked.run(locked.exchange([asking(None, "/infer/relu", known)], fast=True)).startswith(ANSWERED)


def test_another_version_answers_once_it_is_promoted(
    paths: Paths, store: Store, trace: Any, register: Register
) -> None:
    import torch

    register("moves", trace(store.blobs, torch.nn.ReLU(), torch.zeros(1, 2)))
    sent = asking(None, "/infer/moves")
    assert paths.answers_fast(sent)
    register("moves", trace(store.blobs, torch.nn.Tanh(), torch.zeros(1, 2)))
    store.models.promote("default", "moves", 2)

    assert b'"model_version":"2"' in paths.both(sent)
    assert paths.answers_fast(sent)


# What a request may be made of, each beside the same with something wrong: RFC 9112, sections 2, 5, 6, 7 and 11.
HEADS = [
    b"POST /infer/relu HTTP/1.1\r\n",
    b"POST /v2/models/relu/infer HTTP/1.1\r\n",
    b"GET /livez HTTP/1.1\r\n",
    b"POST  /infer/relu HTTP/1.1\r\n",
    b"POST /infer/relu HTTP/1.0\r\n",
    b"POST /infer/relu HTTP/3.7\r\n",
    b"POST /infer/relu\r\n",
    b"\r\nPOST /infer/relu HTTP/1.1\r\n",
    b"POST http://localhost/infer/relu HTTP/1.1\r\n",
    b"OPTIONS * HTTP/1.1\r\n",
]
HOSTS = [
    b"Host: localhost\r\n",
    b"Host: localhost\r\nHost: localhost\r\n",
    b"Host: elsewhere\r\n",
    b"Host : localhost\r\n",
    b"Host: localhost\n",
    b"Host:\r\n localhost\r\n",
    b"",
]
BODY = b'{"args":[[[1.0,-2.0]]]}'
LENGTHS = [
    b"Content-Length: 23\r\n",
    b"Content-Length: 23\r\nContent-Length: 23\r\n",
    b"Content-Length: 23, 23\r\n",
    b"Content-Length: 23\r\nContent-Length: 5\r\n",
    b"Content-Length: +23\r\n",
    b"Content-Length: 0x17\r\n",
    b"Content-Length: 22\r\n",
    b"Content-Length: 24\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length:\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length : 23\r\n",
    b"Content-Length: 2 3\r\n",
    b"",
]
CODINGS = [
    b"",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding: xchunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n",
]
OTHERS = [
    b"",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"X: a\x00b\r\n",
    b"X: a\rb\r\n",
    b"Content-Type: application/json\r\n",
    b"X-Request-ID: a\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
]
BODIES = [
    BODY,
    b"17\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"17;a=b\r\n" + BODY + b"\r\n0\r\nA: b\r\n\r\n",
    b"0\r\n\r\n",
    b"17\n" + BODY + b"\n0\n\n",
    b"-17\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"FFFFFFFFFFFFFFFFF\r\n",
    BODY[:-1],
    BODY + b"G",
    BODY + b"POST /infer/relu HTTP/1.1\r\n",
    b"",
]


def parts(good: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Mostly the first, which is right."""
    return st.one_of(st.just(good[0]), st.just(good[0]), st.sampled_from(good))


messages = st.tuples(*map(parts, (HEADS, HOSTS, LENGTHS, CODINGS, OTHERS)), st.just(b"\r\n"), parts(BODIES)).map(
    b"".join
)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """A few messages, right or wrong, one after the other, cut anywhere."""
    sent = b"".join(draw(st.lists(messages, min_size=1, max_size=4)))
    cuts = sorted({0, len(sent), *draw(st.lists(st.integers(0, len(sent)), max_size=5))})
    return [sent[low:high] for low, high in pairwise(cuts)]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=streams())
def test_whatever_is_sent_both_paths_say_the_same(paths: Paths, pieces: list[bytes]) -> None:
    alone, fast = (paths.run(paths.exchange(pieces, fast=each)) for each in (False, True))

    assert fast == alone


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.binary(max_size=200), at=st.integers(0, 200))
def test_bytes_that_are_no_http_break_nothing(paths: Paths, sent: bytes, at: int) -> None:
    pieces = [asking()[:at] + sent + asking()[at:]]
    alone, fast = (paths.run(paths.exchange(pieces, fast=each)) for each in (False, True))

    assert fast == alone


def test_what_has_failed_is_not_asked_again(paths: Paths) -> None:
    sent = asking({"args": [[0, 5]]}, "/infer/raises")
    counted = paths.app.state.context.inference.statistics
    calls = []

    async def fail() -> bytes:
        good, bad = await paths.open(fast=True), await paths.open(fast=True)
        good[0].data_received(asking({"args": [[0, 1]]}, "/infer/raises"))
        await until(lambda: is_quiet(*good))
        pool = paths.app.state.context.inference._pool
        ask_next = pool._ask_next
        pool._ask_next = lambda *given: (calls.append(given), ask_next(*given))
        bad[0].data_received(sent)
        await until(lambda: is_quiet(*bad))
        pool._ask_next = ask_next
        return bad[1].written

    paths.both(sent)
    before = counted.of(("default", "raises", 1)).failure.count
    said = paths.run(fail())

    assert said.startswith(b"HTTP/1.1 422 ")
    assert b'"code": "graph-raised"' in said
    assert len(calls) == 1
    assert counted.of(("default", "raises", 1)).failure.count == before + 1


@pytest.fixture
def full(
    loop: asyncio.AbstractEventLoop, context: AppContext, store: Store, torch_zygote: Zygote, request: Any
) -> Iterator[Paths]:
    """A service whose runner of `relu` answers nothing, and where nothing more may wait for it."""
    pool = Pool(torch_zygote, store.blobs, pool_limits(waiting_max=0))
    required = getattr(request, "param", False)
    full = Paths(loop, create_app(replace(context, inference=Inference(store, pool), keys_required=required)))
    sent = asking(None, "/infer/relu", bearer(store))
    assert full.run(full.exchange([sent], fast=False)).startswith(b"HTTP/1.1 200 ")
    ((_, runner),) = pool.figures().runners
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGSTOP)
    waiting = loop.create_task(full.exchange([sent], fast=False))
    full.run(until(lambda: sum(pool.figures().in_flight.values()) == 1))
    yield full
    os.kill(runner.pid, signal.SIGCONT)
    assert full.run(waiting).startswith(b"HTTP/1.1 200 ")
    loop.run_until_complete(pool.close(grace_s=0))


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(asking(), id="JSON"),
        pytest.param(asking(None, "/v2/models/relu/infer"), id="the protocol"),
        pytest.param(asking(None, "/v2/models/relu/versions/1/infer"), id="a version"),
        pytest.param(request("/infer/relu", b"12345678", "Content-Type: application/octet-stream"), id="bytes"),
        pytest.param(asking(None, "/infer/relu", "X-Request-ID: mine"), id="an id of its own"),
        pytest.param(request("/infer/relu", b"{", "Content-Type: application/json"), id="no JSON"),
    ],
)
def test_where_a_model_has_its_fill_the_fast_path_refuses_as_the_app_does(full: Paths, sent: bytes) -> None:
    assert full.answers_fast(sent)
    said = full.both(sent)

    assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nretry-after: 1\r\n" in said
    assert b'"code": "pool-saturated"' in said


@pytest.mark.parametrize("full", [True], indirect=True)
def test_a_refused_request_counts_for_its_key(full: Paths, store: Store) -> None:
    known = bearer(store, requests_per_minute=3)
    sent = asking(None, "/infer/relu", known)
    said = [full.run(full.exchange([sent], fast=fast)) for fast in (False, True, True, True)]

    assert [each[:12] for each in said] == [b"HTTP/1.1 503"] * 3 + [b"HTTP/1.1 429"]
    assert [int(re.search(rb"r=(\d+);", each)[1]) for each in said] == [2, 1, 0, 0]  # type: ignore[index]


def test_a_refusal_is_logged_and_counted_as_by_the_app(full: Paths, caplog: pytest.LogCaptureFixture) -> None:
    context: AppContext = full.app.state.context
    sent = asking(None, "/infer/relu", "X-Request-ID: mine")
    caplog.set_level(logging.INFO, "service")

    def counted() -> tuple[int, int, int]:
        exchanges = context.exchanges.durations.get(("POST", "/infer/{model}", 503))
        failures = context.inference.statistics.ended().failures.values()
        return context.exchanges.problems["pool-saturated"], sum(exchanges.counts) if exchanges else 0, sum(failures)

    def ask(*, fast: bool) -> Any:
        caplog.clear()
        before = counted()
        full.run(full.exchange([sent], fast=fast))
        lines = [(each.levelname, each.message, getattr(each, "status", None)) for each in caplog.records]
        return lines, [now - then for now, then in zip(counted(), before, strict=True)]

    alone = ask(fast=False)
    assert ask(fast=True) == alone
    assert alone == ([("WARNING", "request failed", None), ("INFO", "request", 503)], [1, 1, 1])


def test_refusals_leave_each_turn_of_the_loop_to_others(full: Paths, caplog: pytest.LogCaptureFixture) -> None:
    """One is written in each turn; that of a client which has gone meanwhile is not."""
    caplog.set_level(logging.INFO, "service.api.http.access_log")

    async def send() -> list[tuple[bytes, bytes]]:
        opened = [await full.open(fast=True) for _ in range(4)]
        for made, _ in opened:
            made.data_received(asking())
        at_once = [transport.written for _, transport in opened]
        gone, transport = opened[2]
        transport.close()
        gone.connection_lost(None)
        await until(lambda: all(transport.written for _, transport in (*opened[:2], opened[3])))
        for made, _ in (*opened[:2], opened[3]):
            made.connection_lost(None)
        return [(then[:12], transport.written[:12]) for then, (_, transport) in zip(at_once, opened, strict=True)]

    refused = b"HTTP/1.1 503"
    assert full.run(send()) == [(refused, refused), (b"", refused), (b"", b""), (b"", refused)]
    assert sorted(record.status for record in caplog.records if hasattr(record, "status")) == [499, 503, 503, 503]
