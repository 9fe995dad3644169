"""What a model returned in mode eager."""

from typing import Any

import safetensors
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from tests.service.api.conftest import assert_problem, local, spec, with_limits

WAIT = {"prefer": "wait=30"}


def ran(client: TestClient) -> dict[str, Any]:
    said: dict[str, Any] = client.post("/trace", json=spec(mode="eager"), headers=WAIT).json()
    return said


def test_a_request_in_mode_eager_says_where_its_outputs_are_and_has_no_verdict(client: TestClient) -> None:
    said = ran(client)

    assert (said["state"], said["stage"], said["verdict"], said["problem"]) == ("succeeded", "done", None, None)
    assert (said["artifacts"], said["model"], said["findings"]) == ([], None, [])
    assert said["links"] | {"outputs": f"/trace/{said['id']}/outputs", "artifact": None, "infer": None} == said["links"]
    assert client.get("/trace").json()["trace_requests"][0]["links"] == said["links"]


def test_the_outputs_are_told_call_by_call_as_inference_tells_them(client: TestClient) -> None:
    answer = client.get(ran(client)["links"]["outputs"])

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {
        "calls": [
            {
                "method": "forward",
                "case": "example",
                "returns": {"tuple": [{"tensor": "output.0"}, {"baked": "text"}]},
                "outputs": [{"name": "output.0", "datatype": "FP32", "shape": [1, 2], "data": [1.5, "NaN"]}],
            },
            {"method": "forward", "case": "check_inputs[0]", "returns": {"baked": None}, "outputs": []},
        ]
    }


def test_outputs_that_are_too_large_for_an_answer_are_had_as_a_file(context: AppContext) -> None:
    with local(create_app(with_limits(context, answer_max_bytes=100))) as client:
        path = ran(client)["links"]["outputs"]
        refused, file = client.get(path), client.get(f"{path}?format=safetensors")

    assert assert_problem(refused, 422, "answer-too-large")["limit"] == 100
    assert "format=safetensors" in refused.json()["remedy"]
    assert [name for name, _ in safetensors.deserialize(file.content)] == ["0.output.0"]  # type: ignore[no-untyped-call]


def test_a_request_that_was_traced_has_none(client: TestClient) -> None:
    said = client.post("/trace", json=spec(), headers=WAIT).json()

    assert said["links"]["outputs"] is None
    assert assert_problem(client.get(f"/trace/{said['id']}/outputs"), 404, "outputs-not-found")["id"] == said["id"]


def test_a_request_that_is_not_there_has_none(steady: TestClient) -> None:
    assert_problem(steady.get(f"/trace/{'0' * 32}/outputs"), 404, "trace-request-not-found")
