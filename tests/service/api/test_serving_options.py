"""How a model is served, as a client sees it, on real runners: over the app and over the fast path."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from fastapi.testclient import TestClient

from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import PATIENCE_S
from tests.metrics import Scrape
from tests.service.api.conftest import NewStore, Register, assert_problem, serving_runners


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("options"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def models(store: Store, trace: Any, register: Register) -> None:
    register("net", trace(store.blobs, torch.nn.Threshold(0.0, 7.0), torch.ones(2)))


@pytest.fixture(params=["app", "fast path"])
def client(
    request: pytest.FixtureRequest, models: None, store: Store, torch_zygote: Zygote, tmp_path: Path
) -> Iterator[httpx.Client]:
    with (
        serving_runners(store, torch_zygote, tmp_path, answerer=request.param) as host,
        httpx.Client(base_url=f"http://{host}", timeout=PATIENCE_S) as client,
    ):
        serve(client, idle_s=None)
        yield client


def serve(client: httpx.Client, **options: Any) -> dict[str, Any]:
    changed = client.patch("/models/net", json=options)
    assert changed.status_code == 200, changed.text
    document: dict[str, Any] = changed.json()
    return document


def ask(client: httpx.Client) -> list[float]:
    answer = client.post("/infer/net", json={"args": [[1.0, -1.0]]})
    assert answer.status_code == 200, answer.text
    values: list[float] = answer.json()["outputs"][0]["data"]
    return values


def ready(client: httpx.Client) -> float:
    """How many processes are ready to be asked."""
    return Scrape.of(client.get("/metrics")).value("tracehouse_runners", device="cpu", state="ready")


def until(happened: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_an_option_is_there_to_read_and_to_take_back(client: httpx.Client) -> None:
    assert serve(client, idle_s=600)["idle_s"] == 600
    assert client.get("/models/net").json()["idle_s"] == 600
    assert client.get("/models").json()["models"][0]["idle_s"] == 600

    assert serve(client, bitwise=False)["idle_s"] == 600
    assert serve(client, idle_s=None)["idle_s"] is None


@pytest.mark.parametrize(
    "change", [{}, {"idle_s": -1}, {"idle_s": "600"}, {"idle_s": 1e300}, {"bitwise": None}, {"idle": 1}]
)
def test_a_change_that_is_none_is_refused(steady: TestClient, change: dict[str, Any]) -> None:
    assert_problem(steady.patch("/models/linear", json=change), 422, "invalid-request")


def test_a_deleted_model_forgets_its_options(steady: TestClient, store: Store, trace: Any, register: Register) -> None:
    artifact = trace(store.blobs, torch.nn.Threshold(0.0, 7.0), torch.ones(2))
    register("gone", artifact)
    store.models.set_serving("default", "gone", {"idle_s": 600.0, "bitwise": True})
    before = store.models.get("default", "gone").serving
    store.models.delete("default", "gone")

    register("gone", artifact)

    after = store.models.get("default", "gone").serving
    assert (before.idle_s, before.bitwise, after.idle_s, after.bitwise) == (600.0, True, None, False)


def test_a_process_that_nobody_asks_ends_and_the_next_request_starts_another(client: httpx.Client) -> None:
    for _ in range(3):
        serve(client, idle_s=0.05)
        assert ask(client) == [1.0, 7.0]
        until(lambda: ready(client) == 0)


def test_a_change_holds_for_a_process_that_nobody_asks_again(client: httpx.Client) -> None:
    assert ask(client) == [1.0, 7.0]
    assert ready(client) == 1

    serve(client, idle_s=0.05)

    until(lambda: ready(client) == 0)


def test_without_a_time_a_process_stays(client: httpx.Client) -> None:
    serve(client, idle_s=0)
    assert ask(client) == [1.0, 7.0]

    time.sleep(0.5)

    assert ready(client) == 1
