"""Submitting, listing, looking at and cancelling trace requests."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api import trace_requests
from service.api.context import AppContext
from service.api.prefer import preferred_wait_s
from service.domain.api_key import DEFAULT_TENANT
from service.storage.database import Store
from tests.conftest import PATIENCE_S, stored_bytes
from tests.service.api.conftest import Tracer, assert_problem, spec

WAIT = {"prefer": "wait=30"}


def test_a_submission_is_accepted_and_traced(client: TestClient) -> None:
    answer = client.post("/trace", json=spec())

    assert answer.status_code == 202
    assert answer.headers["location"] == answer.json()["links"]["self"]
    assert answer.headers["retry-after"] == "1"
    again = client.post("/trace", json=spec(), headers=WAIT)
    assert (again.status_code, again.json()["id"]) == (200, answer.json()["id"])
    assert client.get(answer.headers["location"]).json() == again.json()


def test_what_a_traced_request_says(client: TestClient) -> None:
    answer = client.post("/trace", json=spec(), headers=WAIT)

    assert answer.headers["preference-applied"] == "wait=30"
    said = answer.json()
    path, digest = f"/trace/{said['id']}", said["artifacts"][0]["digest"]
    assert said["links"] == {
        "self": path,
        "events": f"{path}/events",
        "log": f"{path}/log",
        "source": f"{path}/source",
        "cancel": None,
        "artifact": f"/artifacts/{digest}",
        "infer": "/infer/linear:1",
        "outputs": None,
    }
    assert said["state"] == "succeeded"
    assert (said["stage"], said["progress"], said["attempt"], said["pool"]) == ("done", 1.0, 1, "cpu")
    assert said["waiting"] is None
    assert (said["verdict"], said["model"]) == ("verified", {"name": "linear", "version": 1})
    assert said["artifacts"][0]["verdict_sentence"] == "verified"
    assert said["findings"][0]["line"] == 10
    assert said["problem"] is None
    assert said["created_at"] <= said["started_at"] <= said["ended_at"]


def test_a_failed_request_carries_a_whole_problem(client: TestClient) -> None:
    answer = client.post("/trace", json=spec("fails"), headers=WAIT)

    assert answer.status_code == 200
    assert answer.json()["state"] == "failed"
    document = answer.json()["problem"]
    assert (document["code"], document["status"], document["fault"]) == ("source-syntax-error", 422, "model")
    assert (document["file"], document["line"]) == ("linear.py", 3)
    assert document["instance"] == answer.json()["links"]["self"]


def test_a_failure_is_tried_again_when_it_is_submitted_again(client: TestClient) -> None:
    first = client.post("/trace", json=spec("fails"), headers=WAIT)
    second = client.post("/trace", json=spec("fails"), headers=WAIT)

    assert first.json()["id"] != second.json()["id"]


def test_waiting_ends_when_the_time_is_over(client: TestClient) -> None:
    answer = client.post("/trace", json=spec("stays"), headers={"prefer": "wait=0"})

    assert answer.status_code == 202
    assert "preference-applied" not in answer.headers


def test_a_request_that_no_worker_takes_says_so_at_once_and_can_be_cancelled(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long its submitter would wait."""
    monkeypatch.setattr(trace_requests, "wait_for_end", lambda *_: pytest.fail("it was waited for"))
    answer = client.post("/trace", json=spec(devices=["cuda"]), headers={"prefer": "wait=60"})

    assert (answer.status_code, "preference-applied" in answer.headers) == (202, False)
    said = answer.json()
    assert (said["state"], said["pool"], said["waiting"]) == ("queued", "gpu", "no worker in pool gpu")
    assert client.get(said["links"]["self"]).json() == said
    assert [each["waiting"] for each in client.get("/trace").json()["trace_requests"]] == ["no worker in pool gpu"]
    cancelled = client.post(said["links"]["cancel"]).json()
    assert (cancelled["state"], cancelled["waiting"]) == ("cancelled", None)


def test_waiting_ends_when_the_service_stops(client: TestClient, context: AppContext) -> None:
    context.stopping.set()

    assert client.post("/trace", json=spec("stays"), headers={"prefer": "wait=60"}).status_code == 202


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ([], None),
        (["wait=5"], 5),
        (["WAIT = 5"], 5),
        (["respond-async, wait=10; because=x"], 10),
        (["respond-async", "wait=3", "wait=4"], 3),
        (["wait=100000"], 60),
        (["wait"], None),
        (["wait=-1"], None),
        (["wait=ten"], None),
        (["wait=٣"], None),
        (['note="wait=7, wait=8"'], None),
        (["await=5"], None),
    ],
)
def test_the_preference_is_read_as_the_rfc_has_it(headers: list[str], wait_s: int | None) -> None:
    assert preferred_wait_s(headers) == wait_s


def test_the_same_content_on_its_way_is_the_same_request(client: TestClient) -> None:
    first = client.post("/trace", json=spec("stays"))
    second = client.post("/trace", json=spec("stays"))

    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]


def test_force_traces_again(client: TestClient) -> None:
    first = client.post("/trace", json=spec(), headers=WAIT)
    second = client.post("/trace", json=spec(force=True), headers=WAIT)

    assert first.json()["id"] != second.json()["id"]
    assert second.json()["model"] == {"name": "linear", "version": 2}


def keyed(key: str) -> dict[str, str]:
    return {"idempotency-key": key, **WAIT}


def test_an_idempotency_key_gives_the_same_request_even_if_forced(client: TestClient) -> None:
    first = client.post("/trace", json=spec(force=True), headers=keyed("k"))
    second = client.post("/trace", json=spec(force=True), headers=keyed("k"))

    assert first.json()["id"] == second.json()["id"]


@pytest.mark.parametrize("traced_before", [True, False])
def test_an_idempotency_key_stands_for_one_submission(client: TestClient, traced_before: bool) -> None:
    if traced_before:
        client.post("/trace", json=spec(), headers=WAIT)
    first = client.post("/trace", json=spec(), headers=keyed("k"))

    answer = client.post("/trace", json=spec("other"), headers=keyed("k"))

    assert assert_problem(answer, 422, "idempotency-key-reused")["trace_request"] == first.json()["id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9", "a\tb"])
def test_an_idempotency_key_that_cannot_be_one(steady: TestClient, key: str) -> None:
    answer = steady.post("/trace", json=spec(), headers={"idempotency-key": key.encode("latin-1")})  # type: ignore[dict-item]

    assert assert_problem(answer, 400, "malformed-header")["header"] == "Idempotency-Key"


def test_a_full_queue_is_said(client: TestClient) -> None:
    for number in range(22):
        client.post("/trace", json=spec("stays", options={"seed": number}))

    answer = client.post("/trace", json=spec())

    assert assert_problem(answer, 503, "queue-full")["limit"] == 20
    assert int(answer.headers["retry-after"]) > 0


def test_the_list_goes_on_page_by_page_newest_first(client: TestClient) -> None:
    ids = [client.post("/trace", json=spec(options={"seed": seed}), headers=WAIT).json()["id"] for seed in range(5)]

    page = client.get("/trace?limit=2")
    seen = page.json()["trace_requests"]
    while "next" in page.links:
        page = client.get(page.links["next"]["url"])
        seen += page.json()["trace_requests"]

    assert [request["id"] for request in seen] == ids[::-1]
    assert page.json()["next_cursor"] is None


def test_the_list_can_be_narrowed_and_its_pages_stay_so(client: TestClient) -> None:
    for model in ("linear", "other", "fails"):
        for seed in range(2):
            client.post("/trace", json=spec(model, options={"seed": seed}), headers=WAIT)

    page = client.get("/trace?limit=1&state=succeeded&model=other")
    following = client.get(page.links["next"]["url"])

    found = page.json()["trace_requests"] + following.json()["trace_requests"]
    assert [request["model"]["name"] for request in found] == ["other", "other"]
    assert "next" not in following.links
    [failed] = client.get("/trace?limit=1&state=failed").json()["trace_requests"]
    assert (failed["model_name"], failed["model"]) == ("fails", None)


FORGED = [
    "x",
    "é",
    "\x00",
    "bnVsbA==",  # null
    "W10=",  # []
    "WyIwMDAxLTAxLTAxIiwgImEiXQ==",  # ["0001-01-01", "a"]
    "WyIwMDAxLTAxLTAxVDAwOjAwKzE0OjAwIiwgImEiXQ==",  # ["0001-01-01T00:00+14:00", "a"]
    "WyIyMDI2LTAxLTAxVDAwOjAwWiIsICJcdTAwMDAiXQ==",  # ["2026-01-01T00:00Z", "\u0000"]
]


@pytest.mark.parametrize("cursor", FORGED)
@pytest.mark.parametrize("path", ["/trace", "/models"])
def test_a_cursor_that_no_list_gave_out(steady: TestClient, path: str, cursor: str) -> None:
    assert_problem(steady.get(path, params={"cursor": cursor}), 422, "invalid-cursor")


@pytest.mark.parametrize("path", ["", "/events", "/log", "/source"])
@pytest.mark.parametrize(("request_id", "status"), [("0" * 32, 404), ("x", 422), ("%00", 422), ("%ED%A0%80", 422)])
def test_an_id_of_nothing(steady: TestClient, request_id: str, status: int, path: str) -> None:
    answer = steady.get(f"/trace/{request_id}{path}")

    assert_problem(answer, status, {404: "trace-request-not-found", 422: "invalid-request"}[status])


def test_the_log_is_what_the_code_printed(client: TestClient) -> None:
    answer = client.get(client.post("/trace", json=spec(), headers=WAIT).json()["links"]["log"])

    assert (answer.text, answer.headers["content-type"]) == ("printed\n", "text/plain; charset=utf-8")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_inline_source_comes_back(client: TestClient) -> None:
    answer = client.get(client.post("/trace", json=spec()).json()["links"]["source"])

    assert answer.json() == {"entrypoint": "linear:Linear", "files": {"linear.py": "import torch\n"}}


def test_a_running_request_can_be_cancelled_once(client: TestClient, tracer: Tracer) -> None:
    submitted: dict[str, Any] = client.post("/trace", json=spec("stays")).json()
    assert tracer.running.wait(PATIENCE_S)

    cancelled = client.post(submitted["links"]["cancel"])
    again = client.post(submitted["links"]["cancel"])

    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert cancelled.json()["links"]["cancel"] is None
    assert assert_problem(again, 409, "trace-request-ended")["state"] == "cancelled"


def test_a_request_that_is_not_there_cannot_be_cancelled(steady: TestClient) -> None:
    assert_problem(steady.post(f"/trace/{'0' * 32}/cancel"), 404, "trace-request-not-found")


def test_a_deleted_request_is_gone_with_its_artifact_and_all_that_counted(client: TestClient, store: Store) -> None:
    before = stored_bytes(store, DEFAULT_TENANT)
    headers = {"prefer": "wait=30"}
    ran = client.post("/trace", json=spec("linear"), headers=headers).json()
    assert client.delete("/models/linear").status_code == 204
    assert stored_bytes(store, DEFAULT_TENANT) > before

    deleted = client.delete(f"/trace/{ran['id']}")

    assert (deleted.status_code, deleted.content) == (204, b"")
    assert stored_bytes(store, DEFAULT_TENANT) == before
    for path in (ran["links"]["self"], ran["links"]["log"], ran["links"]["events"], ran["links"]["artifact"]):
        assert client.get(path).status_code == 404, path
    assert_problem(client.delete(f"/trace/{ran['id']}"), 404, "trace-request-not-found")
    assert client.get("/trace").json()["trace_requests"] == []
    again = client.post("/trace", json=spec("linear"), headers=headers).json()
    assert again["model"] == {"name": "linear", "version": 2}, "it was traced again, and no number is given twice"


def test_a_request_that_a_version_came_from_is_not_deleted(client: TestClient) -> None:
    ran = client.post("/trace", json=spec("linear"), headers={"prefer": "wait=30"}).json()

    problem = assert_problem(client.delete(f"/trace/{ran['id']}"), 409, "trace-request-has-version")

    assert (problem["model"], problem["version"]) == ("linear", 1)
    assert "DELETE /models/linear/versions/1" in problem["remedy"]
    assert client.get(ran["links"]["artifact"]).status_code == 200


def test_a_running_request_is_cancelled_first_and_then_deleted(client: TestClient, tracer: Tracer) -> None:
    submitted = client.post("/trace", json=spec("stays")).json()
    assert tracer.running.wait(PATIENCE_S)

    problem = assert_problem(client.delete(f"/trace/{submitted['id']}"), 409, "trace-request-not-ended")

    assert (problem["state"], "/cancel" in problem["remedy"]) == ("running", True)
    client.post(submitted["links"]["cancel"])
    assert client.delete(f"/trace/{submitted['id']}").status_code == 204
    after = client.post("/trace", json=spec("linear"), headers={"prefer": "wait=30"}).json()
    assert after["state"] == "succeeded", "the slot goes on"


def test_an_idempotency_key_goes_with_its_request(client: TestClient) -> None:
    first = client.post("/trace", json=spec("fails"), headers={**keyed("k"), "prefer": "wait=30"}).json()
    assert client.delete(f"/trace/{first['id']}").status_code == 204

    second = client.post("/trace", json=spec("linear"), headers={**keyed("k"), "prefer": "wait=30"}).json()

    assert second["state"] == "succeeded"
