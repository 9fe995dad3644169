"""How a model is served is set for each model, as docs/serving-options.md says."""

import subprocess
import time
from collections.abc import Callable

import httpx

from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, Service, StartService, ended, linear
from tests.metrics import Scrape


def ask(client: httpx.Client, model: str = "linear") -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}
    answer = client.post(f"/infer/{model}", json={"inputs": [tensor]})
    assert answer.status_code == 200, answer.text


def ready(client: httpx.Client) -> float:
    """How many processes are ready to be asked."""
    return Scrape.of(client.get("/metrics")).value("tracehouse_runners", device="cpu", state="ready")


def until(happened: Callable[[], bool]) -> None:
    limit = time.monotonic() + ANSWER_S
    while not happened():
        assert time.monotonic() < limit
        time.sleep(0.05)


def set_option(service: Service, *options: str) -> str:
    command = [TRACEHOUSE, "models", "linear", "--url", service.address, *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=ANSWER_S).stdout


def test_the_process_of_a_model_ends_when_nobody_asks(start_service: StartService) -> None:
    service = start_service(RUNNER_IDLE_S="0.1")
    with service.client() as client:
        assert ended(client, client.post("/trace", json=linear()))["verdict"] == "verified"
        for _ in range(2):
            ask(client)
            until(lambda: ready(client) == 0)

        assert "ends after 600 s without a request" in set_option(service, "--idle-s", "600")
        ask(client)
        time.sleep(3)
        assert ready(client) == 1

        set_option(service, "--idle-s", "service")
        until(lambda: ready(client) == 0)


def test_a_pinned_model_is_ready_after_each_start_before_anybody_asks(start_service: StartService) -> None:
    service = start_service(RUNNER_IDLE_S="0.1")
    with service.client() as client:
        assert ended(client, client.post("/trace", json=linear()))["verdict"] == "verified"
        assert "pinned" in set_option(service, "--pin")
        until(lambda: ready(client) == 1)
        service.terminate()
    service.start()
    with service.client() as client:
        until(lambda: ready(client) == 1)
        ask(client)
        assert Scrape.of(client.get("/metrics")).value("tracehouse_runner_start_seconds_count") == 1

        assert "pinned" not in set_option(service, "--no-pin")
        until(lambda: ready(client) == 0)
