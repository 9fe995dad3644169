"""How a model is served is set for each model, as docs/serving-options.md says."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, Service, StartService, ended, linear
from tests.metrics import Scrape


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One whose processes end when nobody asks. Each test has a model of its own, and leaves no process."""
    running = Service(tmp_path_factory.mktemp("idle") / "state", RUNNER_IDLE_S="0.1")
    yield running
    running.close()


def threads(client: httpx.Client, model: str) -> dict[str, Any]:
    """What the model's page says of its threads."""
    [version] = client.get(f"/models/{model}").json()["versions"]
    [found] = version["threads"].values()
    return dict(found)


def replicas(client: httpx.Client, model: str) -> dict[str, Any]:
    """What the model's page says of its replicas."""
    [version] = client.get(f"/models/{model}").json()["versions"]
    [found] = version["replicas"].values()
    return dict(found)


def ask(client: httpx.Client, model: str) -> list[float]:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}
    answer = client.post(f"/infer/{model}", json={"inputs": [tensor]})
    assert answer.status_code == 200, answer.text
    return [*answer.json()["outputs"][0]["data"]]


def ready(client: httpx.Client) -> float:
    """How many processes are ready to be asked."""
    return Scrape.of(client.get("/metrics")).value("tracehouse_runners", device="cpu", state="ready")


def until(happened: Callable[[], bool]) -> None:
    limit = time.monotonic() + ANSWER_S
    while not happened():
        assert time.monotonic() < limit
        time.sleep(0.05)


def set_option(service: Service, model: str, *options: str) -> str:
    command = [TRACEHOUSE, "models", model, "--url", service.address, *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=ANSWER_S).stdout


def test_the_process_of_a_model_ends_when_nobody_asks(service: Service) -> None:
    with service.client() as client:
        assert ended(client, client.post("/trace", json=linear(model="idles")))["verdict"] == "verified"
        for _ in range(2):
            ask(client, "idles")
            until(lambda: ready(client) == 0)

        assert "ends after 600 s without a request" in set_option(service, "idles", "--idle-s", "600")
        ask(client, "idles")
        time.sleep(3)
        assert ready(client) == 1

        set_option(service, "idles", "--idle-s", "service")
        until(lambda: ready(client) == 0)


def test_the_threads_of_a_model_are_measured_and_its_page_says_why_it_has_so_many(start_service: StartService) -> None:
    service = start_service(RUNNER_THREADS="measured")
    with service.client() as client:
        assert ended(client, client.post("/trace", json=linear(model="measured")))["verdict"] == "verified"
        before = threads(client, "measured")
        assert (before["threads"], before["measured"]) == (2, None)
        assert "not measured yet" in before["why"]
        answered = ask(client, "measured")

        until(lambda: threads(client, "measured")["measured"] is not None)
        found = threads(client, "measured")["measured"]
        until(lambda: threads(client, "measured")["threads"] == found["threads"])

        for last in found["steps"][-1:]:
            is_worth_it = last["speedup"] >= 1.25 and last["slowest"] >= 0.95
            assert found["threads"] == (last["threads"] if is_worth_it else last["fewer"])
        assert ask(client, "measured") == answered
        until(lambda: ready(client) == 1)
        assert threads(client, "measured") == {"threads": found["threads"], "why": found["why"], "measured": found}

        set_option(service, "measured", "--threads", "1")
        expected = {"threads": 1, "why": "the model's option `threads`", "measured": None}
        assert threads(client, "measured") == expected
        set_option(service, "measured", "--threads", "service")
        service.terminate()
    service.start()
    with service.client() as client:
        expected = {"threads": found["threads"], "why": found["why"], "measured": found}
        assert threads(client, "measured") == expected
        assert ask(client, "measured") == answered
        assert threads(client, "measured") == expected


def test_the_replicas_of_a_model_go_by_its_load_and_its_page_says_why_it_has_so_many(
    start_service: StartService,
) -> None:
    """Whether a second one is tried, and stays, hangs on what else the machine does: the page says which."""
    service = start_service(RUNNER_THREADS="1", RUNNER_REPLICAS="measured")
    with service.client() as client, ThreadPoolExecutor(4) as callers:
        assert ended(client, client.post("/trace", json=linear(model="loaded")))["verdict"] == "verified"
        before = replicas(client, "loaded")
        assert before["replicas"] == 1
        assert before["why"].startswith(("more are tried once requests wait", "there are no processors for more"))
        answered, until_s = ask(client, "loaded"), time.monotonic() + 8

        def ask_on() -> set[tuple[float, ...]]:
            answers = set()
            with service.client() as own:
                while time.monotonic() < until_s:
                    answers.add(tuple(ask(own, "loaded")))
            return answers

        asked = [callers.submit(ask_on) for _ in range(4)]
        while not all(one.done() for one in asked):
            found = replicas(client, "loaded")
            # It says why there is one, or begins with the number that it tries, or that was worth it or not.
            assert found == before or found["why"][0].isdecimal(), found
            time.sleep(0.2)
        assert set().union(*(one.result() for one in asked)) == {tuple(answered)}

        assert "answered by up to 2 processes" in set_option(service, "loaded", "--replicas", "2")
        assert ask(client, "loaded") == answered
        count = min(2, len(os.sched_getaffinity(0)))
        until(lambda: ready(client) == count)
        assert replicas(client, "loaded")["why"].startswith("the model's option `replicas`")
        assert "answered by" not in set_option(service, "loaded", "--replicas", "service")
        until(lambda: ready(client) == 1)


def test_a_pinned_model_is_ready_after_each_start_before_anybody_asks(service: Service) -> None:
    with service.client() as client:
        assert ended(client, client.post("/trace", json=linear(model="kept")))["verdict"] == "verified"
        assert "pinned" in set_option(service, "kept", "--pin")
        until(lambda: ready(client) == 1)
        service.terminate()
    service.start()
    with service.client() as client:
        until(lambda: ready(client) == 1)
        ask(client, "kept")
        assert Scrape.of(client.get("/metrics")).value("tracehouse_runner_start_seconds_count") == 1

        assert "pinned" not in set_option(service, "kept", "--no-pin")
        until(lambda: ready(client) == 0)
