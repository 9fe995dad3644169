"""One container that does everything, the profile `embedded` of compose: driven over HTTP, and started again."""

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.containers.compose import ANSWER_S, DOUBLE, Compose, free_port

PORT = free_port()
compose = Compose("tracehouse-test", profile="embedded", api="embedded", TRACEHOUSE_PORT=str(PORT))


@pytest.fixture(scope="module")
def service(engine: None) -> Iterator[httpx.Client]:
    try:
        compose("build", "embedded")
        compose("up", "--no-build", "--detach", "embedded")
        compose.wait_until_healthy()
        headers = {"Authorization": f"Bearer {compose.first_key()}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{PORT}", headers=headers, timeout=ANSWER_S) as client:
            yield client
    finally:
        compose("down", "--volumes")


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
    made = compose("exec", "-T", "embedded", "tracehouse", "keys", "create", "me").splitlines()[-1]

    assert "docker-compose exec embedded" in compose("logs", "--no-color", "embedded")
    assert service.get("/models", headers={"Authorization": f"Bearer {made}"}).status_code == 200


def test_what_was_traced_outlives_the_container(service: httpx.Client, double: str) -> None:
    compose("up", "--no-build", "--detach", "--force-recreate", "embedded")
    compose.wait_until_healthy()

    assert infer(service, double) == [2, 5, -6]
    assert "There was no API key" not in compose("logs", "--no-color", "embedded"), "the first start was before"


def test_the_service_runs_as_an_ordinary_user_without_build_tools(service: httpx.Client) -> None:
    assert compose("exec", "-T", "embedded", "id", "--user") == "10001"
    assert compose("exec", "-T", "embedded", "sh", "-c", "command -v gcc cc make || true") == ""


def test_its_state_moves_to_the_containers_that_have_one_thing_each(
    service: httpx.Client, double: str, store_image: str
) -> None:
    compose("stop", "embedded")
    compose("up", "--no-build", "--detach", "migrate", "bucket")
    assert compose.wait_until_ended("migrate", "bucket") == [0, 0]
    moved = compose("run", "--rm", "--no-deps", "-T", "api", "tracehouse", "migrate-state")
    compose("up", "--no-build", "--detach", "api")
    compose.wait_until_healthy("api")

    assert "rows: " in moved
    assert infer(service, double) == [2, 5, -6]
