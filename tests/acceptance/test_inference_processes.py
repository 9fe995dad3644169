"""Processes that answer inference alone, beside those that trace, on one PostgreSQL and one directory of files."""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import TypeVar

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.acceptance.cluster import POSTGRES_URL, Cluster
from tests.acceptance.conftest import TRACEHOUSE, Service, ended, linear
from tests.conftest import wait_until
from tests.metrics import Scrape

T = TypeVar("T")
pytestmark = pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")

X = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster.open(tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster.open(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Service:
    """One with a worker, for all tests, because both take seconds to start. Each test has a model of its own."""
    api = cluster.start_api("api")
    cluster.start_worker(api)
    return api


@pytest.fixture(scope="module")
def infer(cluster: Cluster, api: Service) -> Iterator[Service]:
    """The process that answers, as shared as `api`: what it counts, and what it keeps, is compared with before."""
    running = cluster.start_infer("infer", "--grpc-port", "0")
    yield running
    assert running.terminate() == 0


def answered(scrape: Scrape) -> float:
    return sum(value for _, value in scrape.all("tracehouse_inference_requests_total", result="answered"))


def test_a_process_for_inference_answers_what_others_traced_and_nothing_else(api: Service, infer: Service) -> None:
    with api.client() as client, infer.client() as asking:
        assert ended(client, client.post("/trace", json=linear(force=True)))["verdict"] == "verified"
        before = answered(Scrape.of(asking.get("/metrics")))
        told = client.post("/infer/linear", json={"inputs": [X]}).json()["outputs"]

        for path, body in (
            ("/infer/linear", {"inputs": [X]}),
            ("/infer", {"model": "linear", "inputs": [X]}),
            ("/v2/models/linear/infer", {"inputs": [X]}),
        ):
            answer = asking.post(path, json=body)
            assert answer.status_code == 200, answer.text
            assert answer.json()["outputs"][0]["data"] == told[0]["data"]
        with closing(triton.InferenceServerClient(infer.grpc_address)) as grpc:
            given = triton.InferInput("x", [1, 2], "FP32")
            given.set_data_from_numpy(np.array([[1, 2]], np.float32))
            assert grpc.infer("linear", [given]).as_numpy(told[0]["name"]).ravel().tolist() == told[0]["data"]

        refused = asking.post("/infer/linear", json={"inputs": [X | {"shape": [2], "data": [1.0, 2.0]}]})
        assert asking.get(refused.json()["type"]).status_code == 200, "the problem's page"
        assert [asking.get(path).status_code for path in ("/livez", "/readyz", "/v2/health/ready")] == [200, 200, 200]
        scrape = Scrape.of(asking.get("/metrics"))
        assert answered(scrape) == before + 4
        assert scrape.value("tracehouse_inference_in_flight", device="cpu") == 0
        for path in (
            "/",
            "/trace",
            "/models",
            "/models/linear",
            "/artifacts",
            "/docs",
            "/openapi.json",
            "/keys",
            "/tenants",
        ):
            assert asking.get(path).status_code == 404, path
        assert asking.post("/trace", json=linear(force=True)).status_code == 404


def after_a_second(ask: Callable[[], T]) -> T:
    """What is answered then to somebody who has asked all the time, so that it is remembered and renewed."""
    until = monotonic() + 1.0
    while monotonic() < until:
        ask()
    return ask()


def test_what_is_changed_through_one_process_another_one_answers_with_within_a_second(
    api: Service, infer: Service
) -> None:
    with api.client() as client, infer.client() as asking:
        for _ in range(2):
            assert ended(client, client.post("/trace", json=linear(model="moves", force=True)))["verdict"] == "verified"
        alias = "/models/moves/aliases/prod"
        at_first = client.put(alias, json={"version": 1}, headers={"if-none-match": "*"})

        def version(model: str) -> str:
            return str(asking.post(f"/infer/{model}", json={"inputs": [X]}).json()["model_version"])

        assert (version("moves@prod"), version("moves")) == ("1", "2")
        client.put(alias, json={"version": 2}, headers={"if-match": at_first.headers["etag"]}).raise_for_status()
        assert after_a_second(lambda: version("moves@prod")) == "2"

        client.post("/models/moves/promote", json={"version": 1}).raise_for_status()
        assert after_a_second(lambda: version("moves")) == "1"


def test_how_a_model_is_served_that_is_set_at_one_process_holds_at_another(api: Service, infer: Service) -> None:
    with api.client() as client, infer.client() as asking:
        of_its_own = linear(model="idles", options={"seed": 7})  # others have other weights, and so processes
        assert ended(client, client.post("/trace", json=of_its_own))["verdict"] == "verified"

        def ready() -> float:
            return Scrape.of(asking.get("/metrics")).value("tracehouse_runners", device="cpu", state="ready")

        before = ready()
        asking.post("/infer/idles", json={"inputs": [X]}).raise_for_status()
        assert ready() == before + 1
        client.patch("/models/idles", json={"idle_s": 0.1}).raise_for_status()

        wait_until(lambda: ready() == before)
        asking.post("/infer/idles", json={"inputs": [X]}).raise_for_status()


def test_a_process_for_inference_makes_no_key_and_sees_those_of_the_api(new_cluster: Cluster) -> None:
    infer = new_cluster.start_infer("infer", API_KEYS="required")
    with infer.client() as asking:
        assert asking.get("/readyz").status_code == 200
        assert asking.post("/infer/linear", json={"inputs": [X]}).json()["code"] == "api-key-missing"
    assert "There was no API key" not in infer.log.read_text()
    assert not (infer.state / "signing").exists(), "it signs nothing"

    api = new_cluster.start_api("api", API_KEYS="required")
    [key] = re.findall(r"^ +(th_\w+)$", api.log.read_text(), re.MULTILINE)
    headers = {"authorization": f"Bearer {key}"}
    with api.client() as client, infer.client() as asking:
        made = client.post("/keys", headers=headers, json={"name": "caller", "scopes": ["infer"]}).json()
        theirs = {"authorization": f"Bearer {made['key']}"}

        def code() -> str:
            return str(asking.post("/infer/linear", headers=theirs, json={"inputs": [X]}).json()["code"])

        assert code() == "model-not-found"
        client.delete(f"/keys/{made['prefix']}", headers=headers)
        assert after_a_second(code) == "api-key-invalid"


def test_without_a_shared_database_there_is_no_process_for_inference_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [TRACEHOUSE, "serve", "--role", "infer", "--state", tmp_path], check=False, capture_output=True, text=True
    )

    assert (done.returncode, "need PostgreSQL" in done.stderr) == (2, True)
