"""A request that cannot be answered now is refused by its head: whoever sends it keeps its body."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from service.api.context import AppContext
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import PATIENCE_S, NewStore, wait_until
from tests.pool_limits import pool_limits
from tests.service.api.conftest import Register, assert_problem, serving_runners
from tracehouse.byte_units import MIB

JSON = "Content-Type: application/json"
BYTES = "Content-Type: application/octet-stream"
EXPECTS = "Expect: 100-continue"
X = orjson.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [1.0, -1.0]}]})
PATHS = ["/infer/relu", "/v2/models/relu/infer", "/v2/models/relu/versions/1/infer"]


class Running:
    """A service whose models `relu` and `twice` have runners; one call may wait for each."""

    def __init__(self, address: str, context: AppContext) -> None:
        self.context = context
        self.http = httpx.Client(base_url=f"http://{address}", timeout=PATIENCE_S)
        host, _, port = address.rpartition(":")
        self._address = host, int(port)

    def ask(self, path: str = "/infer/relu") -> httpx.Response:
        return self.http.post(path, content=X, headers={"content-type": "application/json"})

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Its runner of `relu` answers nothing meanwhile, and as much waits for it as may."""
        assert self.ask().status_code == 200
        figures = self.context.inference.pool_figures
        ((_, runner),) = figures().runners
        assert runner.pid is not None
        with ThreadPoolExecutor(1) as caller:
            os.kill(runner.pid, signal.SIGSTOP)
            try:
                asked = caller.submit(self.ask)
                wait_until(lambda: sum(figures().in_flight.values()) == 1)
                yield
            finally:
                os.kill(runner.pid, signal.SIGCONT)
            assert asked.result().status_code == 200

    def send_head(self, path: str, *headers: str) -> bytes:
        """Return what comes first after a head, before any byte of its body is sent."""
        with self.connection() as connection:
            connection.sendall(head(path, *headers))
            return receive(connection)

    def connection(self) -> socket.socket:
        return socket.create_connection(self._address, PATIENCE_S)


def head(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def receive(connection: socket.socket) -> bytes:
    """Return the next reply, or 100 Continue, which may come in pieces."""
    came = b""
    while True:
        first, end, body = came.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in first.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        if end and len(body) >= length:
            return came
        piece = connection.recv(2**16)
        assert piece, came
        came += piece


def problem_in(reply: bytes, status: int) -> Any:
    first, _, body = reply.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 %d " % status), reply
    assert b"\r\nretry-after: " in first.lower()
    return orjson.loads(body)


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("full"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def models(store: Store, trace: Any, register: Register) -> None:
    """`damaged` has an archive that no runner can load."""
    import torch

    relu = trace(store.blobs, torch.nn.ReLU(), torch.zeros(1, 2))
    register("relu", relu)
    register("twice", trace(store.blobs, torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()), torch.zeros(1, 2)))
    register("damaged", relu.model_copy(update={"archive": relu.golden}))


@pytest.fixture
def start(store: Store, models: None, torch_zygote: Zygote, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a service with these limits of its pool, and with the fast path or without it."""

    with ExitStack() as stack:

        def start(answerer: str = "app", **limits: Any) -> Running:
            contexts: list[AppContext] = []

            def keep(context: AppContext) -> AppContext:
                contexts.append(context)
                return context

            given = pool_limits(**{"waiting_max": 0, **limits})
            runners = serving_runners(store, torch_zygote, tmp_path, answerer=answerer, limits=given, change=keep)
            running = Running(stack.enter_context(runners), contexts[0])
            stack.callback(running.http.close)
            return running

        yield start


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        (JSON, "Content-Length: 100000"),
        (JSON, "Content-Length: 100000", EXPECTS),
        (JSON, "Content-Length: 20", EXPECTS),
        (JSON, "Transfer-Encoding: chunked"),
        (BYTES, "Content-Length: 100000", EXPECTS),
        (BYTES, "Content-Length: 100000", "Inference-Header-Content-Length: 100"),
    ],
    ids=", ".join,
)
@pytest.mark.parametrize("answerer", ["app", "fast"])
def test_where_a_model_has_its_fill_a_request_is_refused_by_its_head(
    start: Callable[..., Running], answerer: str, path: str, headers: tuple[str, ...]
) -> None:
    service = start(answerer)

    with service.busy():
        problem = problem_in(service.send_head(path, *headers), 503)

    assert (problem["code"], problem["waiting_max"]) == ("pool-saturated", 0)


def test_such_a_refusal_is_counted_as_one_after_the_body_is(start: Callable[..., Running]) -> None:
    service = start()

    def rejected() -> int:
        stats = service.http.get("/v2/models/relu/stats").raise_for_status().json()["model_stats"][0]
        fails: int = stats["inference_stats"]["fail"]["count"]
        return fails

    with service.busy():
        before = rejected()
        service.send_head(PATHS[0], JSON, "Content-Length: 100000")
        assert_problem(service.ask(), 503, "pool-saturated")

    assert rejected() == before + 2


@pytest.mark.parametrize("path", PATHS)
def test_where_there_is_room_whoever_waits_for_it_is_told_to_go_on(start: Callable[..., Running], path: str) -> None:
    service = start()
    with service.connection() as connection:
        connection.sendall(head(path, JSON, f"Content-Length: {len(X)}", EXPECTS))
        told = receive(connection)
        connection.sendall(X)
        answered = receive(connection)

    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")


def test_the_connection_of_a_refusal_takes_the_body_and_the_next_request(start: Callable[..., Running]) -> None:
    service = start()
    with service.connection() as connection:
        with service.busy():
            connection.sendall(head(PATHS[0], JSON, "Content-Length: 100000"))
            problem_in(receive(connection), 503)
        connection.sendall(b" " * 100_000 + head(PATHS[0], JSON, f"Content-Length: {len(X)}") + X)

        assert receive(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_an_artifact_that_is_held_back_is_refused_by_the_head(start: Callable[..., Running]) -> None:
    service = start()
    assert_problem(service.ask("/infer/damaged"), 502, "runner-lost")

    problem = problem_in(service.send_head("/infer/damaged", JSON, "Content-Length: 100000"), 502)

    assert (problem["code"], problem["held_back"]) == ("runner-lost", True)


def test_a_model_for_whose_process_there_is_no_memory_is_refused_by_the_head(start: Callable[..., Running]) -> None:
    service = start(memory_max_bytes=40 * MIB)
    with service.busy():
        problem = problem_in(service.send_head("/infer/twice", JSON, "Content-Length: 100000"), 503)
        assert problem["code"] == "pool-memory-short"
        assert problem["retry_after_s"] >= 1

    assert service.ask("/infer/twice").status_code == 200
