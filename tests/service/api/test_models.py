"""The registry over HTTP."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.domain.form_race import FormTrial
from service.domain.serving_options import ServingOptions
from service.serving.forms import Forms
from tests.service.api.conftest import assert_problem, local, spec
from tracehouse.spec.raced_form import RacedForm

PROD = "/models/linear/aliases/prod"
PROMOTE = "/models/linear/promote"


@pytest.fixture
def client(client: TestClient) -> TestClient:
    """With three versions of the model `linear`."""
    for seed in range(3):
        client.post("/trace", json=spec(options={"seed": seed}), headers={"prefer": "wait=30"})
    return client


def test_a_model_has_its_versions_and_where_they_lead(client: TestClient) -> None:
    model = client.get("/models/linear").json()

    assert [version["version"] for version in model["versions"]] == [1, 2, 3]
    assert model["aliases"] == []
    newest = model["versions"][-1]
    assert newest["verdict"] == "verified"
    assert newest["links"]["infer"] == "/infer/linear:3"
    assert client.get(newest["links"]["artifact"]).json()["digest"] == newest["artifacts"]["cpu"]
    assert client.get(newest["links"]["trace_request"]).json()["model"]["version"] == 3


def test_a_version_says_nothing_of_forms_where_none_are_raced(client: TestClient) -> None:
    assert [version["forms"] for version in client.get("/models/linear").json()["versions"]] == [{}, {}, {}]


def test_a_version_says_which_form_answers_and_why_others_may_not(app: FastAPI, tmp_path: Path) -> None:
    """Of the artifact that was raced, and of no other."""
    lost = FormTrial(form=RacedForm.ONEDNN_FUSION, out="'output' differs: the form as saved gives 1, and this form 2")
    won = FormTrial(form=RacedForm.FREEZE, calls=90, saved_s=0.002, form_s=0.001, speedup=2.0, slowest=1.5)
    versions: dict[str, str | None] = {"onnxruntime": "1.32.0"}
    forms = Forms(
        tmp_path / "forms",
        lambda *_: [won, lost],
        machine=lambda _: "this one",
        torch_version="2.13.0",
        packages=versions,
    )
    app.state.context = replace(app.state.context, forms=forms)
    with local(app) as client:
        client.post("/trace", json=spec(), headers={"prefer": "wait=30"})
        [version] = client.get("/models/linear").json()["versions"]
        assert version["forms"] == {}
        digest = version["artifacts"]["cpu"]
        threads = app.state.context.inference.threads("default", digest, ServingOptions())
        asyncio.run(forms.race(app.state.context.store.artifacts.get("default", digest), digest, threads))

        [version] = client.get("/models/linear").json()["versions"]
        listed = client.get("/models").json()["models"][0]["versions"]

    assert listed == [version]
    [found] = version["forms"].values()
    assert (found["answers"], found["speedup"], found["machine"]) == ("freeze", 2.0, "this one")
    assert found["packages"] == versions
    assert [one["out"] for one in found["trials"]] == [None, lost.out]


def test_models_are_listed_by_name_page_by_page(client: TestClient) -> None:
    for name in ("b", "a"):
        client.post("/trace", json=spec(name), headers={"prefer": "wait=30"})

    page = client.get("/models?limit=2")
    rest = client.get(page.links["next"]["url"])

    assert [model["name"] for model in page.json()["models"]] == ["a", "b"]
    assert [model["name"] for model in rest.json()["models"]] == ["linear"]
    assert rest.json()["next_cursor"] is None


def test_an_alias_is_made_and_moved_from_where_it_is(client: TestClient) -> None:
    made = client.put(PROD, json={"version": 1})
    moved = client.put(PROD, json={"version": 2}, headers={"if-match": made.headers["etag"]})

    assert (made.status_code, moved.status_code) == (200, 200)
    unguarded = {"move_back_after": None, "move_back_to": None, "moved_back": None}
    assert client.get(PROD).json() == {"alias": "prod", "version": 2, "etag": moved.headers["etag"], **unguarded}
    assert client.get(PROD).headers["etag"] == moved.headers["etag"]
    assert client.get("/models/linear").json()["aliases"] == [moved.json()]


def test_the_second_of_two_who_move_an_alias_is_refused(client: TestClient) -> None:
    etag = client.put(PROD, json={"version": 1}).headers["etag"]
    assert client.put(PROD, json={"version": 2}, headers={"if-match": etag}).status_code == 200

    assert_problem(client.put(PROD, json={"version": 3}, headers={"if-match": etag}), 412, "alias-moved")
    assert client.get(PROD).json()["version"] == 2


def test_an_alias_is_not_moved_by_somebody_who_did_not_look(client: TestClient) -> None:
    client.put(PROD, json={"version": 1})

    assert_problem(client.put(PROD, json={"version": 2}), 428, "if-match-required")
    assert_problem(client.put(PROD, json={"version": 2}, headers={"if-none-match": "*"}), 412, "alias-moved")
    assert client.get(PROD).json()["version"] == 1
    assert client.put(PROD, json={"version": 2}, headers={"if-match": "*"}).json()["version"] == 2


def test_an_alias_that_is_gone_is_not_moved(client: TestClient) -> None:
    etag = client.put(PROD, json={"version": 1}).headers["etag"]
    assert client.delete(PROD).status_code == 204

    assert_problem(client.put(PROD, json={"version": 2}, headers={"if-match": etag}), 412, "alias-moved")
    assert_problem(client.get(PROD), 404, "alias-not-found")
    assert client.put(PROD, json={"version": 2}, headers={"if-none-match": "*"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"if-match": "1"}, {"if-match": '"1", "2"'}, {"if-none-match": '"1"'}, {"if-match": '"1"', "if-none-match": "*"}],
)
def test_a_precondition_that_cannot_be_one(steady: TestClient, headers: dict[str, str]) -> None:
    assert_problem(steady.put(PROD, json={"version": 1}, headers=headers), 400, "malformed-header")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"version": 9}', 404, "version-not-found"),
        (b'{"version": 0}', 422, "invalid-request"),
        (b'{"version": "1"}', 422, "invalid-request"),
        (b'{"version": true}', 422, "invalid-request"),
        (b'{"version": 1e30}', 422, "invalid-request"),
        (b"{}", 422, "invalid-request"),
        (b"[" * 9999, 400, "malformed-json"),
        (b'"' + b"x" * 10**6 + b'"', 413, "payload-too-large"),
    ],
)
def test_a_target_that_is_none(steady: TestClient, body: bytes, status: int, code: str) -> None:
    assert_problem(steady.put(PROD, content=body, headers={"content-type": "application/json"}), status, code)


def test_a_version_is_deleted_unless_an_alias_points_at_it(client: TestClient) -> None:
    client.put(PROD, json={"version": 2})

    assert assert_problem(client.delete("/models/linear/versions/2"), 409, "version-aliased")["aliases"] == ["prod"]
    assert client.delete("/models/linear/versions/1").status_code == 204
    assert_problem(client.delete("/models/linear/versions/1"), 404, "version-not-found")
    assert [each["version"] for each in client.get("/models/linear").json()["versions"]] == [2, 3]


def test_the_default_version_is_promoted_and_rolled_back_in_one_call_each(client: TestClient) -> None:
    assert client.get("/models/linear").json()["default_version"] == 3

    back = client.post(PROMOTE, json={"version": 1})

    assert back.json() == {"name": "linear", "default_version": 1, "previous_version": 3}
    assert client.get("/models/linear").json()["default_version"] == 1
    assert client.post(PROMOTE, json={"version": 3}).json()["previous_version"] == 1


def test_a_promotion_may_say_which_version_it_replaces(client: TestClient) -> None:
    headers = {"if-match": '"3"'}
    assert client.post(PROMOTE, json={"version": 1}, headers=headers).status_code == 200

    moved = assert_problem(client.post(PROMOTE, json={"version": 2}, headers=headers), 412, "default-version-moved")

    assert (moved["expected"], moved["actual"]) == (3, 1)
    assert client.post(PROMOTE, json={"version": 2}, headers={"if-match": "*"}).status_code == 200
    for header in ("2", '"0"', 'W/"2"', '"2", "3"', '"x"'):
        answer = client.post(PROMOTE, json={"version": 1}, headers={"if-match": header})
        assert_problem(answer, 400, "malformed-header")


def test_a_promotion_may_say_that_it_is_the_first(client: TestClient) -> None:
    first = {"if-none-match": "*"}
    client.post("/trace", json=spec(model="unpromoted", promote="never"), headers={"prefer": "wait=30"})
    path = "/models/unpromoted/promote"

    assert client.post(path, json={"version": 1}, headers=first).json()["previous_version"] is None
    moved = assert_problem(client.post(path, json={"version": 1}, headers=first), 412, "default-version-moved")
    assert moved["actual"] == 1
    for headers in ({"if-none-match": '"1"'}, {"if-none-match": "*", "if-match": '"1"'}):
        assert_problem(client.post(path, json={"version": 1}, headers=headers), 400, "malformed-header")


def test_the_default_version_stays_while_there_are_others(client: TestClient) -> None:
    assert_problem(client.delete("/models/linear/versions/3"), 409, "version-is-default")

    client.post(PROMOTE, json={"version": 1})

    assert client.delete("/models/linear/versions/3").status_code == 204


def test_a_trace_request_says_whether_its_version_was_promoted(client: TestClient) -> None:
    def promotion(seed: int, **members: Any) -> dict[str, Any]:
        headers = {"prefer": "wait=30"}
        reply = client.post("/trace", json=spec(options={"seed": seed}, **members), headers=headers).json()
        version = next(
            each
            for each in client.get("/models/linear").json()["versions"]
            if each["version"] == reply["model"]["version"]
        )
        assert reply["promotion"] == version["promotion"]
        assert client.get(reply["links"]["self"]).json()["promotion"] == reply["promotion"]
        return reply["promotion"]

    assert promotion(10) == {
        "promoted": True,
        "reason": "it accepts all that version 3 accepts, and its verdict is as good",
    }
    assert promotion(11, promote="never")["promoted"] is False
    assert client.get("/models/linear").json()["default_version"] == 4
    assert promotion(12, promote="always")["promoted"] is True
    assert_problem(client.post("/trace", json=spec(promote="sometimes")), 422, "invalid-request")
    assert_problem(client.post("/trace", json=spec(promote="always", mode="eager")), 422, "invalid-request")


def test_a_deleted_model_is_gone_and_its_numbers_do_not_come_again(client: TestClient) -> None:
    assert client.delete("/models/linear").status_code == 204
    assert_problem(client.get("/models/linear"), 404, "model-not-found")
    assert_problem(client.delete("/models/linear"), 404, "model-not-found")

    again = client.post("/trace", json=spec(), headers={"prefer": "wait=30"})

    assert again.json()["model"]["version"] == 4


@pytest.mark.parametrize("name", ["%00", "a%2Fb", "a@b", "a%0A", "%ED%A0%80", "x" * 65, "%F0%9F%98%80"])
@pytest.mark.parametrize("path", ["/models/{}", "/models/linear/aliases/{}"])
def test_a_name_that_is_none(steady: TestClient, path: str, name: str) -> None:
    answer: Any = steady.get(path.format(name))

    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("version", ["0", "-1", "1.5", "x", "9" * 20, "%00"])
def test_a_version_that_is_none(steady: TestClient, version: str) -> None:
    assert_problem(steady.delete(f"/models/linear/versions/{version}"), 422, "invalid-request")


def test_a_model_without_a_version_says_what_became_of_its_newest_request(client: TestClient) -> None:
    client.post("/trace", json=spec(model="fails"), headers={"prefer": "wait=30"})

    answer = client.post("/infer/fails", json={"args": [[[1, 2, 3, 4]]]})
    assert answer.json()["detail"] == "there is no model of this name; a trace request for it failed"
