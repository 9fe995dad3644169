"""Exported programs: downloads beside the archive, where there are any."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from service.domain.api_key import DEFAULT_TENANT
from service.domain.outcome import Succeeded
from service.domain.trace_request import TraceRequest
from service.storage.database import Store
from tests.conftest import keep
from tests.service.api.conftest import ARCHIVE, assert_problem, authorized, local, spec, traced
from tracehouse.artifact.exportability import Exportability, ExportAttempt
from tracehouse.spec.trace_spec import TraceSpec

PROGRAM = b"PK and so on"
PT2 = {"format": "pt2"}
FAILED = ExportAttempt(
    method="forward", way="direct", outcome="failed", error="UserError", detail="no such thing", file="net.py", line=6
)
SUCCEEDED = ExportAttempt(method="forward", way="direct", outcome="succeeded")

Path = Callable[..., str]


@pytest.fixture
def path(client: TestClient, store: Store) -> Path:
    """Of an artifact that has these besides."""

    def path(**members: Any) -> str:
        submitted = TraceSpec.model_validate(spec())
        request = TraceRequest.new(submitted, {}, torch_version="2", tenant=DEFAULT_TENANT)
        store.trace_requests.add(request, None, queue_max=10)
        claimed = store.trace_requests.claim(request.id)
        assert claimed is not None
        artifact = traced(store, claimed).model_copy(update=members)
        assert store.trace_requests.finish(claimed.id, claimed.attempt, Succeeded.of(submitted, [artifact]))
        return f"/artifacts/{artifact.digest}"

    return path


@pytest.fixture
def exported(path: Path, store: Store) -> str:
    return path(exported=keep(store.blobs, PROGRAM), exportability=Exportability.of([SUCCEEDED]))


def test_the_exported_program_comes_beside_the_archive(client: TestClient, exported: str) -> None:
    program = client.get(f"{exported}/archive", params=PT2)
    archive = client.get(f"{exported}/archive", params={"format": "torchscript"})

    assert (program.content, archive.content) == (PROGRAM, ARCHIVE)
    assert program.headers["content-disposition"].endswith(".pt2")
    assert program.headers["etag"] != archive.headers["etag"]
    assert client.get(f"{exported}/archive", params=PT2, headers={"range": "bytes=0-1"}).content == PROGRAM[:2]
    assert client.get(client.get(exported).json()["links"]["exported"]).content == PROGRAM


def test_the_manifest_says_what_came_of_each_way(client: TestClient, path: Path) -> None:
    said = client.get(path(exportability=Exportability.of([FAILED]))).json()["exportability"]

    assert (said["readiness"], said["attempts"][0]["line"]) == ("not", 6)
    assert "net.py:6" in said["note"]


def test_an_artifact_that_nobody_asked_to_export(client: TestClient, path: Path) -> None:
    document = assert_problem(client.get(f"{path()}/archive", params=PT2), 404, "exported-program-not-found")

    assert document["asked"] is False
    assert "options.exportability" in document["remedy"]


def test_an_artifact_that_could_not_be_exported_says_why(client: TestClient, path: Path) -> None:
    answer = client.get(f"{path(exportability=Exportability.of([FAILED]))}/archive", params=PT2)

    document = assert_problem(answer, 404, "exported-program-not-found")
    assert (document["asked"], document["readiness"]) == (True, "not")
    assert "net.py:6" in document["detail"]
    assert "options.exportability" not in document["remedy"]


def test_a_format_that_there_is_not(client: TestClient, exported: str) -> None:
    assert_problem(client.get(f"{exported}/archive", params={"format": "onnx"}), 422, "invalid-request")


def test_another_tenants_exported_program_is_not_there(context: AppContext, exported: str) -> None:
    with local(create_app(replace(context, keys_required=True))) as keyed:
        ours, theirs = (authorized(context.store, tenant=tenant) for tenant in (DEFAULT_TENANT, "others"))

        assert keyed.get(f"{exported}/archive", params=PT2, headers=ours).content == PROGRAM
        assert_problem(keyed.get(f"{exported}/archive", params=PT2, headers=theirs), 404, "artifact-not-found")
