"""How a model is served, as a client sees it, on real runners: over the app and over the fast path."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from fastapi.testclient import TestClient

from service.domain.api_key import DEFAULT_TENANT
from service.domain.replica_count import Look
from service.domain.serving_options import ServingOptions
from service.sandbox.zygote import Zygote
from service.serving.deployment import Deployment
from service.serving.pool import Pool
from service.serving.replica_changes import ReplicaChanges
from service.serving.runner import RunnerState
from service.storage import models as models_of_the_store
from service.storage.database import Store
from tests.conftest import PATIENCE_S
from tests.metrics import Scrape
from tests.pool_limits import pool_limits
from tests.service.api.conftest import NewStore, Register, assert_problem, serving_runners


class Wide(torch.nn.Module):
    """Has all threads compute."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(1_000_000).sum() * 0.0


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("options"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def models(store: Store, trace: Any, register: Register) -> None:
    register("net", trace(store.blobs, torch.nn.Threshold(0.0, 7.0), torch.ones(2)))
    register("wide", trace(store.blobs, Wide(), torch.ones(2)))
    for value in (1.0, 2.0):
        register("moves", trace(store.blobs, torch.nn.Threshold(0.0, value), torch.ones(2)))


@pytest.fixture
def pool(store: Store, torch_zygote: Zygote) -> Pool:
    return Pool(torch_zygote, store.blobs, pool_limits())


@pytest.fixture(params=["app", "fast path"])
def client(
    request: pytest.FixtureRequest, models: None, store: Store, torch_zygote: Zygote, tmp_path: Path, pool: Pool
) -> Iterator[httpx.Client]:
    with asking(store, torch_zygote, tmp_path, pool, request.param) as client:
        yield client


@contextmanager
def asking(
    store: Store, zygote: Zygote, directory: Path, pool: Pool, answerer: str = "fast path"
) -> Iterator[httpx.Client]:
    for model in store.models.list(DEFAULT_TENANT, 10).items:
        store.models.set_serving(DEFAULT_TENANT, model.name, ServingOptions().model_dump())
    with (
        serving_runners(store, zygote, directory, answerer=answerer, pool=pool) as host,
        httpx.Client(base_url=f"http://{host}", timeout=PATIENCE_S) as client,
    ):
        yield client


def serve(client: httpx.Client, model: str = "net", **options: Any) -> dict[str, Any]:
    changed = client.patch(f"/models/{model}", json=options)
    assert changed.status_code == 200, changed.text
    document: dict[str, Any] = changed.json()
    return document


def ask(client: httpx.Client, model: str = "net") -> list[float]:
    answer = client.post(f"/infer/{model}", json={"args": [[1.0, -1.0]]})
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
    assert [one["idle_s"] for one in client.get("/models").json()["models"] if one["name"] == "net"] == [600]

    assert serve(client, bitwise=False)["idle_s"] == 600
    assert serve(client, idle_s=None)["idle_s"] is None
    assert client.get("/models/net").json()["replicas"] is None
    assert serve(client, replicas=2)["replicas"] == 2
    assert client.get("/models/net").json()["replicas"] == 2
    assert serve(client, replicas=None)["replicas"] is None


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"idle_s": -1},
        {"idle_s": "600"},
        {"idle_s": 1e300},
        {"bitwise": None},
        {"idle": 1},
        {"pinned": None},
        {"threads": 0},
        {"threads": 1025},
        {"threads": 1.5},
        {"replicas": 0},
        {"replicas": 1025},
        {"replicas": 1.5},
        {"replicas": "2"},
    ],
)
def test_a_change_that_is_none_is_refused(steady: TestClient, change: dict[str, Any]) -> None:
    assert_problem(steady.patch("/models/linear", json=change), 422, "invalid-request")


def test_a_deleted_model_forgets_its_options(steady: TestClient, store: Store, trace: Any, register: Register) -> None:
    artifact = trace(store.blobs, torch.nn.Threshold(0.0, 7.0), torch.ones(2))
    register("gone", artifact)
    store.models.set_serving(DEFAULT_TENANT, "gone", {"idle_s": 600.0, "bitwise": True})
    before = store.models.get(DEFAULT_TENANT, "gone").serving
    store.models.delete(DEFAULT_TENANT, "gone")

    register("gone", artifact)

    after = store.models.get(DEFAULT_TENANT, "gone").serving
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


def pids(pool: Pool) -> set[int | None]:
    """The processes that are ready to be asked."""
    return {runner.pid for _, runner in pool.figures().runners if runner.state is RunnerState.READY}


def test_a_pinned_model_is_ready_before_anybody_asks(client: httpx.Client) -> None:
    assert serve(client, pinned=True)["pinned"] is True

    until(lambda: ready(client) == 1)

    assert ask(client) == [1.0, 7.0]
    assert Scrape.of(client.get("/metrics")).value("tracehouse_runner_start_seconds_count") == 1


def test_a_pinned_model_that_was_lost_is_ready_again(client: httpx.Client, pool: Pool) -> None:
    """However often: each time a little later, and a request waits for none of that."""
    serve(client, pinned=True)
    lost: set[int | None] = set()
    for _ in range(4):
        until(lambda: bool(pids(pool) - lost))
        [pid] = pids(pool) - lost
        assert pid is not None
        lost.add(pid)
        os.kill(pid, signal.SIGKILL)

    assert ask(client) == [1.0, 7.0]


def test_a_pinned_model_is_not_ended_for_idleness_until_it_is_pinned_no_more(client: httpx.Client, pool: Pool) -> None:
    serve(client, pinned=True, idle_s=0.05)
    until(lambda: ready(client) == 1)
    before = pids(pool)

    time.sleep(0.5)
    assert (ready(client), pids(pool)) == (1, before)
    serve(client, pinned=False)

    until(lambda: ready(client) == 0)


def test_the_default_version_alone_is_pinned(client: httpx.Client, pool: Pool) -> None:
    client.post("/models/moves/promote", json={"version": 1}).raise_for_status()
    serve(client, "moves", pinned=True, idle_s=0.05)
    until(lambda: ready(client) == 1)
    first = pids(pool)

    client.post("/models/moves/promote", json={"version": 2}).raise_for_status()

    until(lambda: ready(client) == 1 and not pids(pool) & first)
    assert ask(client, "moves") == [1.0, 2.0]


def test_a_tenant_may_pin_so_many_models(client: httpx.Client, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models_of_the_store, "PINNED_MAX", 1)
    serve(client, pinned=True)
    serve(client, pinned=True)

    refused = client.patch("/models/moves", json={"pinned": True})

    assert assert_problem(refused, 409, "too-many-pinned")["limit"] == 1


def test_pinned_models_are_kept_ready_as_far_as_the_share_goes(
    models: None, store: Store, torch_zygote: Zygote, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A small one takes 16 MiB, and 32 MiB are wanted for a start."""
    pool = Pool(torch_zygote, store.blobs, pool_limits(memory_max_bytes=40 * 2**20))
    with asking(store, torch_zygote, tmp_path, pool) as client:
        serve(client, "net", pinned=True)
        until(lambda: ready(client) == 1)
        serve(client, "moves", pinned=True)
        until(lambda: "a pinned model is not kept ready" in caplog.text)

        assert ready(client) == 1
        assert not_kept_ready(client, "net") == []
        [why] = not_kept_ready(client, "moves")
        assert "does not fit into the tenant's share" in why
        refused = client.post("/infer/moves", json={"args": [[1.0, -1.0]]})
        assert "pinned models take" in assert_problem(refused, 503, "pool-memory-short")["detail"]
        assert ask(client, "net") == [1.0, 7.0]

        serve(client, "net", pinned=False)
        until(lambda: client.post("/infer/moves", json={"args": [[1.0, -1.0]]}).status_code == 200)
        until(lambda: not_kept_ready(client, "moves") == [])


def not_kept_ready(client: httpx.Client, model: str) -> list[str]:
    """Why processes of the model's default version are not kept ready."""
    document = client.get(f"/models/{model}").json()
    [version] = [one for one in document["versions"] if one["version"] == document["default_version"]]
    return [*version["not_kept_ready"].values()]


def running(client: httpx.Client, model: str) -> list[int]:
    """How many processes answer for the model, of each version of which some do."""
    versions = client.get(f"/models/{model}").json()["versions"]
    return [count for version in versions for count in version["running"].values() if count]


def test_a_model_is_answered_by_as_many_processes_as_it_says(client: httpx.Client, pool: Pool) -> None:
    """More than the machine has cores for, four here, are as many as it has. A change is gone by within two seconds."""
    assert running(client, "net") == []
    for replicas, count in ((3, 3), (1024, 4), (2, 2), (1, 1)):
        serve(client, "net", replicas=replicas)
        assert ask(client) == [1.0, 7.0]
        until(lambda count=count: ready(client) == count and running(client, "net") == [count])
        for _ in range(2 * count):
            assert ask(client) == [1.0, 7.0]
        assert ready(client) == count


def replicas_of(client: httpx.Client, model: str) -> dict[str, Any]:
    """What the page of the model's only version says of its replicas."""
    [version] = client.get(f"/models/{model}").json()["versions"]
    [found] = version["replicas"].values()
    return dict(found)


def test_a_model_says_how_many_processes_answer_it_and_why(client: httpx.Client) -> None:
    assert replicas_of(client, "net") == {"replicas": 1, "why": "RUNNER_REPLICAS"}
    serve(client, "net", replicas=3)
    assert replicas_of(client, "net") == {"replicas": 3, "why": "the model's option `replicas`"}
    serve(client, "net", replicas=5)
    why = "the model's option `replicas`, and there are no more processors"
    assert replicas_of(client, "net") == {"replicas": 4, "why": why}


def test_a_model_whose_replicas_are_measured_says_how_many_a_load_is_worth(
    models: None, store: Store, torch_zygote: Zygote, tmp_path: Path
) -> None:
    """Any load is worth two here: the answers of each look are twice as many as before."""
    number = numbers()

    def measure(deployment: Deployment, elapsed_s: float) -> Look:
        ready = deployment.answering_count
        return Look(elapsed_s, 10 * 2 ** next(number), busy_s=ready * elapsed_s, waits=True, ready=ready)

    changes = ReplicaChanges(2, lambda: 1e6 * time.monotonic(), measure=measure)
    pool = Pool(torch_zygote, store.blobs, pool_limits(), replica_changes=changes)
    with asking(store, torch_zygote, tmp_path, pool) as client:
        assert replicas_of(client, "net")["replicas"] == 1
        assert "once requests wait" in replicas_of(client, "net")["why"]
        assert ask(client) == [1.0, 7.0]
        until(lambda: "times as many requests as 1" in replicas_of(client, "net")["why"])
        assert replicas_of(client, "net")["replicas"] == 2
        assert running(client, "net") == [2]
        assert ask(client) == [1.0, 7.0]

        serve(client, "net", replicas=1)
        until(lambda: running(client, "net") == [1])
        assert replicas_of(client, "net") == {"replicas": 1, "why": "the model's option `replicas`"}


def test_fewer_processes_run_than_a_model_says_where_there_is_no_memory(
    models: None, store: Store, torch_zygote: Zygote, tmp_path: Path
) -> None:
    """A small one takes 16 MiB, and 32 MiB are wanted for a start."""
    pool = Pool(torch_zygote, store.blobs, pool_limits(memory_max_bytes=40 * 2**20))
    with asking(store, torch_zygote, tmp_path, pool) as client:
        serve(client, "net", replicas=3)
        for _ in range(5):
            assert ask(client) == [1.0, 7.0]

        assert client.get("/models/net").json()["replicas"] == 3
        assert replicas_of(client, "net")["replicas"] == 3
        assert running(client, "net") == [1]


def test_the_other_processes_answer_where_one_is_killed_and_it_comes_again(client: httpx.Client, pool: Pool) -> None:
    serve(client, "net", replicas=2)
    assert ask(client) == [1.0, 7.0]
    until(lambda: ready(client) == 2)
    for _ in range(3):
        pid = next(iter(pids(pool)))
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        assert ask(client) == [1.0, 7.0]
        until(lambda pid=pid: pid not in pids(pool) and ready(client) == 2)


def test_all_processes_of_a_pinned_model_are_ready_before_anybody_asks(client: httpx.Client) -> None:
    serve(client, pinned=True, replicas=2, idle_s=0.05)

    until(lambda: ready(client) == 2)

    time.sleep(0.5)
    assert ready(client) == 2
    serve(client, pinned=False)
    until(lambda: ready(client) == 0)


def test_loading_has_all_processes_ready_and_unloading_none(client: httpx.Client) -> None:
    serve(client, replicas=2)
    client.post("/v2/repository/models/net/load").raise_for_status()
    until(lambda: ready(client) == 2)

    client.post("/v2/repository/models/net/unload").raise_for_status()

    assert ready(client) == 0
    assert running(client, "net") == []


def test_a_model_computes_with_its_threads_and_the_process_with_others_ends(client: httpx.Client, pool: Pool) -> None:
    """The service has one, and the machine at most four."""
    counts = []
    for threads in (None, 3, 100, None):
        assert serve(client, "wide", threads=threads)["threads"] == threads
        assert ask(client, "wide") == [1.0, -1.0]
        until(lambda: ready(client) == 1)
        [pid] = pids(pool)
        counts.append(len(os.listdir(f"/proc/{pid}/task")))

    assert [count - counts[0] for count in counts] == [0, 2, 3, 0]


def test_a_change_while_requests_run_costs_no_answer(client: httpx.Client, pool: Pool) -> None:
    """Each change ends a process: some requests come when one ends, or while another starts."""
    stop, answers, seen = threading.Event(), [], set()

    def ask_on() -> None:
        with httpx.Client(base_url=client.base_url, timeout=PATIENCE_S) as own:
            while not stop.is_set():
                answers.append(ask(own, "wide"))

    with ThreadPoolExecutor(2) as callers:
        asked = [callers.submit(ask_on) for _ in range(2)]
        try:
            for number in range(6):
                replicas = 1 + number % 3
                serve(client, "wide", threads=2 + number % 2, replicas=replicas, pinned=bool(number % 3), idle_s=0.02)
                before = len(answers)
                until(lambda before=before: len(answers) > before + 4 or any(one.done() for one in asked))
                seen |= {runner.pid for _, runner in pool.figures().runners}
        finally:
            stop.set()
        for one in asked:
            one.result()

    assert all(answer == [1.0, -1.0] for answer in answers)
    assert len(seen) > 1
