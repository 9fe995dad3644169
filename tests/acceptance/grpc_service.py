"""A service that speaks gRPC, with models and keys of two tenants, as the tests of calls and of streams share it."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import orjson
import psutil
import pytest
import tritonclient.grpc as triton

from service.domain.api_key import Scope
from tests.acceptance.conftest import ANSWER_S, Service, ended
from tests.conftest import NewStore
from tests.metrics import Scrape

__all__ = ["client", "held", "keys", "owner", "state"]  # the fixtures; a module has its own `service`

CALLED_PER_MINUTE = 3  # by the key `limited`


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    state = tmp_path_factory.mktemp("grpc") / "state"
    state.mkdir(mode=0o700)
    return state


@pytest.fixture(scope="module")
def keys(state: Path, new_store: NewStore) -> dict[str, str]:
    """The Authorization header of each key."""
    store, scopes = new_store(state), {Scope.TRACE, Scope.READ, Scope.INFER}
    made = {
        "owner": store.api_keys.create("owner", "acme", scopes),
        "stranger": store.api_keys.create("stranger", "other", scopes),
        "reader": store.api_keys.create("reader", "acme", {Scope.READ}),
        "watcher": store.api_keys.create("watcher", "acme", {Scope.METRICS}),
        "limited": store.api_keys.create("limited", "acme", scopes, requests_per_minute=CALLED_PER_MINUTE),
    }
    store.close()
    return {name: f"Bearer {token}" for name, (_, token) in made.items()}


@pytest.fixture
def owner(keys: dict[str, str]) -> dict[str, str]:
    return {"authorization": keys["owner"]}


@pytest.fixture
def client(service: Service) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(service.grpc_address)
    yield client
    client.close()


@pytest.fixture
def held(service: Service, client: triton.InferenceServerClient, owner: dict[str, str]) -> Iterator[Callable[[], None]]:
    """Stop the process that answers for `relu`, until the test calls this, or ends."""
    client.unload_model("relu", headers=owner)
    tree = psutil.Process(service.process.pid)
    before = {child.pid for child in tree.children(recursive=True)}
    client.load_model("relu", headers=owner)
    runners = [child.pid for child in tree.children(recursive=True) if child.pid not in before]
    assert runners, "no process was started for the model"
    for pid in runners:
        os.kill(pid, signal.SIGSTOP)

    def go_on() -> None:
        for pid in runners:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    yield go_on
    go_on()


@contextmanager
def serve(
    state: Path, keys: dict[str, str], source: str, models: Mapping[str, tuple[str, Sequence[Any]]], **settings: str
) -> Iterator[Service]:
    """A service with these models, each of a class and with its inputs, which belong to `owner`'s tenant."""
    running = Service(state, API_KEYS="required", GRPC_PORT="0", KEY_REQUESTS_PER_MINUTE="1000000", **settings)
    with running.client() as http:
        http.headers["authorization"] = keys["owner"]
        for model, (name, inputs) in models.items():
            trace(http, model, source, name, inputs)
    yield running
    running.close()


def trace(http: httpx.Client, model: str, source: str, name: str, inputs: Sequence[Any]) -> None:
    """Make the model's next version, of the class with this name in the source."""
    submitted = {"files": {"models.py": source}, "entrypoint": f"models:{name}"}
    request = http.post("/trace", json={"model": model, "source": submitted, "example_inputs": inputs})
    assert ended(http, request)["state"] == "succeeded"


def random(datatype: str, *shape: int) -> dict[str, Any]:
    return {"datatype": datatype, "shape": shape, "random": {"seed": 0}}


def wait_for(holds: Callable[[], object]) -> None:
    for _ in range(int(ANSWER_S * 10)):
        if holds():
            return
        sleep(0.1)
    pytest.fail("it never came to that")


def logged(service: Service, message: str, request_id: str) -> list[dict[str, Any]]:
    lines = [orjson.loads(line) for line in service.log.read_bytes().splitlines() if line.startswith(b"{")]
    return [line for line in lines if line.get("http_request") == request_id and line["message"] == message]


def scrape(service: Service, keys: dict[str, str]) -> Scrape:
    with service.client() as http:
        return Scrape.of(http.get("/metrics", headers={"authorization": keys["watcher"]}))
