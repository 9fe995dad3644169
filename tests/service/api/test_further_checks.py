"""`POST /artifacts/{digest}/check`: what it takes and refuses, and what a real worker makes of it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.domain.trace_request import TraceRequest
from service.engine.embedded import EmbeddedEngine
from service.sandbox.zygote import Zygote
from service.serving.inference import Inference
from service.serving.pool import Pool
from service.storage.blobs import Blobs
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, PATIENCE_S, damage, wait_until
from tests.pool_limits import pool_limits
from tests.service.api.conftest import Tracer, assert_problem, local, make_context, spec, traced
from tests.submissions import spec as submission
from tests.submissions import tensor
from tests.workers.conftest import LIMITS
from tracehouse.artifact.manifest import Artifact
from workers.worker import Worker

UNKNOWN = "sha256:" + "0" * 64
WAIT = {"prefer": "wait=60"}
X = tensor([[1.0, 2.0, 3.0, 4.0]])


def submit(client: TestClient, **members: Any) -> str:
    """The digest of the artifact of a small submission."""
    ended = client.post("/trace", json=spec(**members), headers=WAIT).json()
    return str(ended["artifacts"][0]["digest"])


def test_a_further_check_is_a_trace_request_to_follow(client: TestClient) -> None:
    digest = submit(client)

    answer = client.post(f"/artifacts/{digest}/check", json={"budget": "deep"})

    said = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/trace/{said['id']}" == said["links"]["self"]
    assert (said["continues"], said["is_idle"]) == (digest, False)
    assert client.get(answer.headers["location"]).json()["continues"] == digest


def test_a_further_check_has_the_budget_that_is_asked_for(client: TestClient, store: Store) -> None:
    digest = submit(client)

    ids = [client.post(f"/artifacts/{digest}/check", json=body).json()["id"] for body in ({}, {"budget_s": 90.0})]

    checks = [store.trace_requests.get("default", one).spec.check for one in ids]
    assert [(one.budget, one.budget_s) for one in checks] == [("deep", None), (None, 90.0)]


def test_the_same_further_check_is_not_made_twice(client: TestClient) -> None:
    digest = submit(client)

    first = client.post(f"/artifacts/{digest}/check", json={"budget": "deep"}, headers=WAIT)
    second = client.post(f"/artifacts/{digest}/check", json={"budget": "deep"})

    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json()["id"] == second.json()["id"]


def test_an_idempotency_key_stands_for_one_further_check(client: TestClient) -> None:
    digest, key = submit(client), {"idempotency-key": "once"}

    first = client.post(f"/artifacts/{digest}/check", json={"budget": "deep"}, headers=key).json()
    again = client.post(f"/artifacts/{digest}/check", json={"budget": "deep"}, headers=key).json()
    other = client.post(f"/artifacts/{digest}/check", json={"budget_s": 90}, headers=key)

    assert first["id"] == again["id"]
    assert_problem(other, 422, "idempotency-key-reused")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"budget": "large"}, "/budget"),
        ({"budget": "deep", "budget_s": 9}, "/budget"),
        ({"budget_s": 0}, "/budget_s"),
        ({"depth": 1}, "/depth"),
    ],
)
def test_a_budget_that_cannot_be_used_is_refused_at_its_field(
    steady: TestClient, digest: str, body: dict[str, Any], pointer: str
) -> None:
    document = assert_problem(steady.post(f"/artifacts/{digest}/check", json=body), 422, "invalid-request")

    assert [one["pointer"] for one in document["errors"]] == [pointer]


def test_an_artifact_that_does_not_exist_cannot_be_checked(steady: TestClient) -> None:
    answer = steady.post(f"/artifacts/{UNKNOWN}/check", json={"budget": "deep"})

    assert_problem(answer, 404, "artifact-not-found")


def unlink(blobs: Blobs, digest: str) -> None:
    Path(blobs._path(digest)).unlink()


@pytest.mark.parametrize("lose", [unlink, damage])
def test_an_artifact_whose_files_were_deleted_or_damaged_cannot_be_checked(
    client: TestClient, store: Store, lose: Callable[[Blobs, str], None]
) -> None:
    files = [("files", ("inputs.npz", b"what comes in"))]
    request = spec(example_inputs=[{"file": "inputs.npz", "key": "x"}])
    parts = [("request", (None, orjson.dumps(request), "application/json")), *files]
    ended = client.post("/trace", files=parts, headers=WAIT).json()
    stored = store.trace_requests.get("default", ended["id"])
    lose(store.blobs, stored.files["inputs.npz"].digest)

    answer = client.post(f"/artifacts/{ended['artifacts'][0]['digest']}/check", json={"budget": "deep"})

    document = assert_problem(answer, 409, "submission-gone")
    assert document["files"] == ["inputs.npz"]


class UploadedTracer(Tracer):
    """Its artifacts are like those of an uploaded archive, or of an earlier release."""

    def traced(self, request: TraceRequest) -> Artifact:
        changes = {"form": "uploaded"} if request.spec.model == "uploaded" else {"conversion": None}
        return traced(self._store, request).model_copy(update=changes)


@pytest.mark.parametrize(("model", "code"), [("uploaded", "archive-without-model"), ("old", "conversion-unknown")])
def test_an_artifact_of_which_no_model_is_known_cannot_be_checked(
    store: Store, state_dir: Path, model: str, code: str
) -> None:
    engine = EmbeddedEngine(store, UploadedTracer(store).run, slots={"cpu": 1}, queue_max=20, attempts=3)
    engine.start()
    with local(create_app(make_context(store, engine, state_dir))) as client:
        digest = submit(client, model=model)
        answer = client.post(f"/artifacts/{digest}/check", json={"budget": "deep"})
    engine.stop()

    assert_problem(answer, 409, code)


@pytest.fixture
def whole(store: Store, state_dir: Path, torch_zygote: Zygote) -> Iterator[TestClient]:
    """The service with a real worker and real runners."""
    pool = Pool(torch_zygote, store.blobs, pool_limits())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await pool.close(grace_s=0)

    worker = Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, attempts=2)
    engine = EmbeddedEngine(store, worker.run, slots={"cpu": 1}, queue_max=20, attempts=2)
    engine.start()
    context = replace(make_context(store, engine, state_dir), inference=Inference(store, pool))
    with local(create_app(context, lifespan)) as client:
        yield client
    engine.stop(PATIENCE_S)


def ended(client: TestClient, answer: Any) -> dict[str, Any]:
    """The trace request as it ended."""
    path = answer.headers["location"]
    wait_until(lambda: client.get(path).json()["ended_at"] is not None)
    return dict(client.get(path).json())


def infer(client: TestClient, rows: int, model: str = "net") -> Any:
    return client.post(f"/infer/{model}", json={"args": [[[1.0, 2.0, 3.0, 4.0]] * rows]})


def test_more_inputs_are_answered_once_the_check_went_on(whole: TestClient) -> None:
    submitted = submission("linear", example_inputs=[X], check={"budget_s": 1e-6})
    digest = ended(whole, whole.post("/trace", json=submitted))["artifacts"][0]["digest"]
    assert_problem(infer(whole, 3), 422, "shape-mismatch")

    later = ended(whole, whole.post(f"/artifacts/{digest}/check", json={"budget_s": 120}))

    assert (later["verdict"], later["model"]) == ("verified", {"name": "net", "version": 2})
    assert infer(whole, 3).status_code == 200
    made = whole.get(f"/artifacts/{later['artifacts'][0]['digest']}").json()
    before = whole.get(f"/artifacts/{digest}").json()
    assert made["archive"] == before["archive"]
    assert made["continues"] == digest
    [told] = before["later_checks"]
    assert (told["trace_request"], told["digest"], told["verdict"]) == (later["id"], made["digest"], "verified")
    assert before["withdrawn_by"] is None


def test_an_artifact_that_a_later_check_rejects_does_not_go_on_answering(whole: TestClient) -> None:
    submitted = submission("branches_on_large_values", example_inputs=[X], check={"probes": "off", "budget_s": 120})
    first = ended(whole, whole.post("/trace", json=submitted))
    digest = first["artifacts"][0]["digest"]
    assert infer(whole, 1).status_code == 200
    known = whole.get(f"/artifacts/{digest}").headers["etag"]

    later = ended(whole, whole.post(f"/artifacts/{digest}/check", json={"budget_s": 120}))

    assert later["verdict"] == "rejected"
    for model in ("net", "net:1"):
        document = assert_problem(infer(whole, 1, model), 409, "artifact-withdrawn")
        assert document["trace_request"] == later["id"]
        assert later["id"] in document["remedy"]
    seen = whole.get(f"/artifacts/{digest}", headers={"if-none-match": known})
    assert (seen.status_code, seen.json()["withdrawn_by"]) == (200, later["id"])
    assert_problem(whole.post(f"/artifacts/{digest}/check", json={}), 409, "artifact-withdrawn")
