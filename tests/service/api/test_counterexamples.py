"""Counterexamples of an artifact: each as two files."""

import pytest
from fastapi.testclient import TestClient

from service.domain.trace_request import TraceRequest
from service.storage.database import Store
from tests.conftest import keep
from tests.service.api.conftest import Tracer, assert_problem, spec, traced
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.artifact.manifest import Artifact
from tracehouse.tensors.tensor import Datatype, TensorSpec

ARRAYS, TEST = b"PK arrays", b"def test_it(): ...\n"


class Refuted(Tracer):
    """One counterexample is found of what it traces."""

    def traced(self, request: TraceRequest) -> Artifact:
        found = Counterexample(
            method="forward",
            case="fresh 1",
            inputs=[TensorSpec(name="x", datatype=Datatype.FP32, shape=(1, 4))],
            output="output",
            difference="eager gives 1.0 at [0, 0], and the artifact 2.0",
            eager=1.0,
            artifact=2.0,
            arrays=keep(self._store.blobs, ARRAYS),
            test=keep(self._store.blobs, TEST),
        )
        return traced(self._store, request).model_copy(update={"counterexamples": [found]})


@pytest.fixture
def tracer(store: Store) -> Tracer:
    return Refuted(store)


@pytest.fixture
def path(client: TestClient) -> str:
    answer = client.post("/trace", json=spec(), headers={"prefer": "wait=30"})
    return f"/artifacts/{answer.json()['artifacts'][0]['digest']}"


@pytest.mark.parametrize(
    ("name", "content", "saved_as"),
    [("0.npz", ARRAYS, "counterexample-0.npz"), ("0.py", TEST, "test_counterexample_0.py")],
)
def test_a_counterexample_is_downloaded(
    client: TestClient, path: str, name: str, content: bytes, saved_as: str
) -> None:
    answer = client.get(f"{path}/counterexamples/{name}")

    assert (answer.status_code, answer.content) == (200, content)
    assert f'filename="{saved_as}"' in answer.headers["content-disposition"]
    assert client.get(path).json()["counterexamples"][0]["case"] == "fresh 1"


def test_an_artifact_links_to_its_counterexamples(client: TestClient, path: str) -> None:
    (links,) = client.get(path).json()["links"]["counterexamples"]

    assert client.get(links["arrays"]).content == ARRAYS
    assert client.get(links["test"]).content == TEST


@pytest.mark.parametrize("kind", ["npz", "py"])
def test_a_counterexample_that_there_is_not(client: TestClient, path: str, kind: str) -> None:
    document = assert_problem(client.get(f"{path}/counterexamples/1.{kind}"), 404, "counterexample-not-found")

    assert document["counterexamples"] == 1
    assert_problem(client.get(f"{path}/counterexamples/x.{kind}"), 422, "invalid-request")
