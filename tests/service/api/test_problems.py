"""Problem documents, for whatever goes wrong."""

import logging
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import ValidationError

from service.api.problems import invalid_body, json_pointer, problem_of, status_of
from service.domain.errors import QueueFull, StorageUnavailable, TraceRequestNotFound
from tests.conftest import PATIENCE_S
from tests.service.api.conftest import assert_problem, serving, spec
from tracehouse.errors import Failure, MissingInput, RunnerLost, ShapeMismatch, TracerLost, by_slug
from tracehouse.spec.trace_spec import TraceSpec


def test_a_problem_has_all_its_members(steady: TestClient) -> None:
    answer = steady.get(f"/trace/{'0' * 32}", headers={"x-request-id": "my-id.1"})

    assert assert_problem(answer, 404, "trace-request-not-found") == {
        "type": "/problems/trace-request-not-found",
        "title": TraceRequestNotFound.title(),
        "status": 404,
        "detail": "there is no trace request with this id",
        "instance": f"/trace/{'0' * 32}",
        "code": "trace-request-not-found",
        "error": "there is no trace request with this id",
        "fault": "caller",
        "remedy": TraceRequestNotFound.remedy(),
        "request_id": "my-id.1",
        "id": "0" * 32,
    }


def test_a_fact_cannot_pass_itself_off_as_the_status() -> None:
    document = problem_of(Failure(slug="model-raised", detail="no", facts={"status": 200, "type": "x", "line": 3}))

    assert (document.status, document.type, document.model_extra) == (422, "/problems/model-raised", {"line": 3})


@pytest.mark.parametrize(
    ("facts", "remedy"), [({}, MissingInput.remedy()), ({"remedy": "so"}, "so"), ({"remedy": 3}, None)]
)
def test_a_problem_says_what_to_do_about_it(facts: dict[str, Any], remedy: str | None) -> None:
    document = problem_of(Failure(slug="missing-input", detail="no", facts=facts))

    assert document.remedy == (remedy or MissingInput.remedy())


def test_a_failure_that_a_newer_release_wrote_is_shown_all_the_same() -> None:
    document = problem_of(Failure(slug="not-yet-known", detail="it happened"))

    assert (document.code, document.status, document.detail) == ("not-yet-known", 500, "it happened")


def test_every_error_has_a_status_and_a_description(steady: TestClient) -> None:
    listed = steady.get("/problems").json()["problems"]

    assert {kind["code"] for kind in listed} == set(by_slug())
    for kind in listed:
        assert steady.get(kind["type"]).json() == kind
        assert 400 <= kind["status"] <= 599
        assert (kind["status"] >= 500) == (kind["fault"] == "service") or kind["code"] in (
            "inference-timeout",
            "not-supported",  # as Triton says it
            "stream-ended",  # by a limit; clients of gRPC open another one
        )


def test_an_error_has_the_status_of_its_family() -> None:
    assert [status_of(error) for error in (ShapeMismatch, RunnerLost, TracerLost, QueueFull)] == [422, 502, 502, 503]


def test_there_is_no_such_problem(steady: TestClient) -> None:
    assert_problem(steady.get("/problems/nope"), 404, "problem-not-found")


@pytest.mark.parametrize(
    "path", ["/nope", "/trace/", "/trace/a/b/c", "/trace//log", "/docs/assets/nope.js", "/docs/assets/../x"]
)
def test_an_unknown_path_is_not_found(steady: TestClient, path: str) -> None:
    assert_problem(steady.get(path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/trace", "GET, HEAD, POST"),
        ("HEAD", "/infer", "POST"),
        ("OPTIONS", "/livez", "GET, HEAD"),
        ("PATCH", "/models/linear/aliases/prod", "GET, HEAD, PUT, DELETE"),
        ("BREW", "/problems", "GET, HEAD"),
        ("GET", "/infer/linear", "POST"),
    ],
)
def test_a_method_that_a_path_does_not_take(steady: TestClient, method: str, path: str, allowed: str) -> None:
    answer = steady.request(method, path)

    assert answer.headers["allow"] == allowed
    assert answer.status_code == 405
    if method != "HEAD":
        assert_problem(answer, 405, "method-not-allowed")


def test_a_parameter_that_makes_no_sense(steady: TestClient) -> None:
    document = assert_problem(steady.get("/trace?limit=1000&state=lost"), 422, "invalid-request")

    assert [(error["in"], error["parameter"]) for error in document["errors"]] == [
        ("query", "limit"),
        ("query", "state"),
    ]


def test_a_mistake_of_ours_is_told_without_its_text_and_logged_with_its_id(
    app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("the secret")

    with caplog.at_level(logging.ERROR), serving(app) as (host, port):
        answer = httpx.get(f"http://{host}:{port}/broken", headers={"x-request-id": "its-id"}, timeout=PATIENCE_S)

    assert assert_problem(answer, 500, "internal-error")["request_id"] == "its-id"
    assert answer.headers["x-request-id"] == "its-id"
    assert "secret" not in answer.text
    assert any("RuntimeError: the secret" in str(record.exc_text) for record in caplog.records)


def test_what_cannot_be_taken_now_says_when_to_come_back(
    app: FastAPI, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    @app.get("/full")
    def full() -> None:
        raise QueueFull("too many", waiting=3)

    answer = client.get("/full")

    logged = [record for record in caplog.records if hasattr(record, "error")]
    assert [(record.levelname, record.error, record.exc_info) for record in logged] == [("WARNING", "queue-full", None)]
    assert assert_problem(answer, 503, "queue-full")["waiting"] == 3
    assert answer.headers["retry-after"] == "1"


def test_what_a_broken_part_refuses_is_logged_with_what_broke(
    app: FastAPI, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    @app.get("/broken")
    def broken() -> None:
        raise StorageUnavailable("no storage") from OSError("the disk is gone")

    assert_problem(client.get("/broken"), 503, "storage-unavailable")

    assert any("the disk is gone" in str(record.exc_text) for record in caplog.records)


def test_facts_of_any_kind_can_be_told(app: FastAPI, client: TestClient) -> None:
    @app.get("/odd")
    def odd() -> None:
        raise ShapeMismatch("lone \ud800 surrogate", expected=2**1500, actual="\udfff\x00")

    document = assert_problem(client.get("/odd"), 422, "shape-mismatch")

    assert document["expected"] == 2**1500


@pytest.mark.parametrize(
    ("location", "body", "pointer"),
    [
        (("a", 0, "b"), {"a": [{"b": 1}]}, "/a/0/b"),
        (("a", "inline", "b"), {"a": {"b": 1}}, "/a/b"),
        (("a", 0, "inline", "b"), {"a": {"b": 1}}, "/a/b"),
        (("a/b", "c~d"), {"a/b": {"c~d": 1}}, "/a~1b/c~0d"),
        (("a", "dict", "dict", "x"), {"a": {"dict": {"x": 1}}}, "/a/dict/x"),
        ((), {}, ""),
    ],
)
def test_a_pointer_names_what_is_in_the_body(location: Any, body: Any, pointer: str) -> None:
    assert json_pointer(location, body) == pointer


def test_a_missing_member_is_pointed_at() -> None:
    body = spec(weights={})
    with pytest.raises(ValidationError) as raised:
        TraceSpec.model_validate(body)

    assert invalid_body(raised.value, body, TraceSpec).facts["errors"][0]["pointer"] == "/weights/file"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (spec(option={}), "there is no such member; there are model, source, weights"),
        (spec(options={"optimise": True}), "there is no such member; there are strict, force_outplace"),
        (spec(weights={"file": "w.pt", "strictly": True}), "there is no such member; there are file, key, rename"),
    ],
)
def test_an_unknown_member_is_told_with_those_that_there_are(body: Any, said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TraceSpec.model_validate(body)

    assert invalid_body(raised.value, body, TraceSpec).facts["errors"][0]["detail"].startswith(said)
