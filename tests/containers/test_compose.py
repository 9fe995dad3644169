"""The container as it ships: built from this tree, started by compose, driven over HTTP, and started again."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
PROJECT = "tracehouse-test"
# Ten times what each takes on an idle machine, and more: no outcome is to hang on how busy it is.
READY_S = 300
ANSWER_S = 300

DOUBLE = """
import torch

class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""


def compose(*arguments: str) -> str:
    command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    done = subprocess.run(
        [*command, "--project-name", PROJECT, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def wait_until_healthy() -> None:
    """Wait for the image's own healthcheck to say so."""
    container = compose("ps", "--quiet", "api")
    deadline = time.monotonic() + READY_S
    while (health := _health(container)) != "healthy":
        assert time.monotonic() < deadline, f"{health} after {READY_S} s:\n{compose('logs', '--no-color', 'api')}"
        time.sleep(0.5)


def _health(container: str) -> str:
    inspect = ["docker", "inspect", "--format", "{{.State.Health.Status}}", container]
    return subprocess.run(inspect, capture_output=True, text=True, check=True).stdout.strip()


def first_key() -> str:
    """The key that the first start shows in the log, once."""
    [key] = re.findall(r"\| +(th_\w+)$", compose("logs", "--no-color", "api"), re.MULTILINE)
    return str(key)


@pytest.fixture(scope="module")
def service(engine: None) -> Iterator[httpx.Client]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    os.environ["TRACEHOUSE_PORT"] = str(port)
    try:
        compose("build")
        compose("up", "--detach")
        wait_until_healthy()
        headers = {"Authorization": f"Bearer {first_key()}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=ANSWER_S) as client:
            yield client
    finally:
        compose("down", "--volumes")
        del os.environ["TRACEHOUSE_PORT"]


@pytest.fixture(scope="module")
def double(service: httpx.Client) -> str:
    """A model traced in the container; its name."""
    trace_request = {
        "model": "double",
        "source": {"files": {"double.py": DOUBLE}, "entrypoint": "double:Double"},
        "example_inputs": [{"datatype": "FP32", "shape": [3], "data": [1, 2, 3]}],
    }
    ended = service.post("/trace", json=trace_request, headers={"Prefer": "wait=60"}).json()
    while ended["state"] in ("queued", "running"):
        time.sleep(0.5)
        ended = service.get(ended["links"]["self"]).raise_for_status().json()
    assert ended["state"] == "succeeded", ended
    return "double"


def infer(service: httpx.Client, model: str) -> list[float]:
    reply = service.post(f"/infer/{model}", json={"inputs": {"x": [1, 2.5, -3]}})
    assert reply.status_code == 200, reply.text
    return reply.json()["outputs"][0]["data"]


def test_a_model_is_traced_and_answers(service: httpx.Client, double: str) -> None:
    assert infer(service, double) == [2, 5, -6]


def test_nobody_comes_in_without_a_key(service: httpx.Client) -> None:
    assert service.get("/models").status_code == 200
    assert service.get("/models", headers={"Authorization": ""}).status_code == 401


def test_the_log_says_how_to_go_on(service: httpx.Client) -> None:
    made = compose("exec", "-T", "api", "tracehouse", "keys", "create", "me").splitlines()[-1]

    assert "docker-compose exec api" in compose("logs", "--no-color", "api")
    assert service.get("/models", headers={"Authorization": f"Bearer {made}"}).status_code == 200


def test_what_was_traced_outlives_the_container(service: httpx.Client, double: str) -> None:
    compose("up", "--detach", "--force-recreate")
    wait_until_healthy()

    assert infer(service, double) == [2, 5, -6]
    assert "There was no API key" not in compose("logs", "--no-color", "api"), "the first start was before"


def test_the_service_runs_as_an_ordinary_user_without_build_tools(service: httpx.Client) -> None:
    assert compose("exec", "-T", "api", "id", "--user") == "10001"
    assert compose("exec", "-T", "api", "sh", "-c", "command -v gcc cc make || true") == ""
