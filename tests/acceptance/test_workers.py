"""Processes that answer HTTP and processes that trace, apart, on one PostgreSQL and one directory of files."""

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import httpx
import psutil
import pytest

from tests.acceptance.cluster import POSTGRES_URL, Cluster, Worker
from tests.acceptance.conftest import ANSWER_S, Service, ended, get, linear
from tests.acceptance.test_kill import kinds_of_events, sleeping, slow_source, wait_until_running
from tests.conftest import wait_until
from tests.database_relay import DatabaseRelay
from tests.metrics import Scrape
from tests.otlp_receiver import OtlpReceiver

pytestmark = pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster.open(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(shared_cluster: Cluster) -> Service:
    """One for all tests, because it takes seconds to start. Each submits models of its own, to workers of its own."""
    return shared_cluster.start_api("api")


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """That of `api`. What a test starts in it ends with the test."""
    with ExitStack() as running:
        yield shared_cluster.until(running)


def new() -> dict[str, Any]:
    """What is traced, whichever test has submitted the like before."""
    return linear(force=True)


def ports_of(worker: Worker) -> list[Any]:
    """The connections on which it listens."""
    opened = psutil.Process(worker.process.pid).net_connections()
    return [one for one in opened if one.status == psutil.CONN_LISTEN]


def test_a_request_is_followed_and_cancelled_through_a_process_that_does_not_run_it(
    cluster: Cluster, api: Service
) -> None:
    other = cluster.start_api("other")
    with api.client() as client, other.client() as other_client:
        first = client.post("/trace", json=linear(source=sleeping(), model="sleeps")).json()
        assert first["waiting"] == "no worker in pool cpu"
        with other_client.stream("GET", first["links"]["events"]) as events:
            lines = events.iter_lines()
            worker = cluster.start_worker(api)
            assert any('"loading"' in line for line in lines), "a process that runs nothing tells of it"
            second = client.post("/trace", json=new())

            assert client.post(first["links"]["cancel"]).json()["state"] == "cancelled"

            assert "event: end" in [*lines]
        assert ended(other_client, second)["verdict"] == "verified"  # in the slot that the first one had
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}
        answer = other_client.post("/infer/linear", json={"inputs": [tensor]})
        assert answer.status_code == 200, answer.text
    assert worker.end() == 0


def test_what_a_killed_worker_ran_ends_once_in_another_one(cluster: Cluster, api: Service) -> None:
    killed = cluster.start_worker(api)
    with api.client() as client:
        request = client.post("/trace", json=linear(source=slow_source(), model="slow")).json()
        wait_until_running(client, request["id"])
        killed.end(signal.SIGKILL)
        cluster.start_worker(api)

        after = ended(client, client.get(f"/trace/{request['id']}"))

        assert after["state"] == "succeeded"
        assert after["attempt"] >= 2  # more where a busy machine keeps a worker silent for too long
        assert kinds_of_events(client, after)["end"] == 1
        assert [version["version"] for version in client.get("/models/slow").json()["versions"]] == [1]


def test_a_worker_that_is_stopped_gives_its_request_to_another_one_at_once(cluster: Cluster, api: Service) -> None:
    """It counts as no fault, and nobody has to find out that the worker is gone."""
    stopped = cluster.start_worker(api)
    with api.client() as client:
        request = client.post("/trace", json=linear(source=sleeping(), model="sleeps")).json()
        wait_until_running(client, request["id"])
        assert stopped.address == ""
        assert ports_of(stopped) == [], "it answers HTTP only where it is asked to"

        assert stopped.end() == 0

        assert client.get(f"/trace/{request['id']}").json()["state"] == "queued"
        cluster.start_worker(api)
        wait_until(lambda: client.get(f"/trace/{request['id']}").json()["attempt"] == 2)
        client.post(f"/trace/{request['id']}/cancel")


def test_a_worker_tells_that_it_is_ready_and_what_it_did(cluster: Cluster, api: Service) -> None:
    worker = cluster.start_worker(api, "--port", "0")

    for path in ("/livez", "/healthz"):
        assert get(worker.address + path).json() == {"status": "alive"}
    ready = get(f"{worker.address}/readyz")
    assert ready.status_code == 200, ready.text
    assert (ready.json()["status"], ready.json()["pool"], ready.json()["slots"]) == ("ready", "cpu", 1)
    assert ready.json()["sandbox"] == get(f"{api.address}/readyz").json()["sandbox"]

    with api.client() as client:
        assert ended(client, client.post("/trace", json=new()))["verdict"] == "verified"
    scrape = Scrape.of(get(f"{worker.address}/metrics"))

    assert scrape.value("tracehouse_trace_attempts_total", pool="cpu", end="succeeded") == 1
    assert scrape.value("tracehouse_trace_requests_total", pool="cpu", outcome="verified") == 1
    assert scrape.value("tracehouse_trace_slots", pool="cpu") == 1
    assert scrape.value("tracehouse_trace_queue_requests", pool="cpu") == 0
    assert scrape.value("tracehouse_database_up") == scrape.value("tracehouse_sandbox_up") == 1
    assert scrape.families.items() <= Scrape.of(get(f"{api.address}/metrics")).families.items()
    assert worker.end() == 0


def test_a_worker_goes_on_with_its_callers_trace_also_if_the_api_sends_none(cluster: Cluster, api: Service) -> None:
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with OtlpReceiver.open() as receiver:
        worker = cluster.start_worker(api, "--port", "0", **receiver.environment)
        with api.client() as client:
            headers = {"traceparent": f"00-{trace}-{span}-01", "tracestate": "theirs=1"}
            assert ended(client, client.post("/trace", json=new(), headers=headers))["verdict"] == "verified"
        assert get(f"{worker.address}/metrics").status_code == 200
        assert worker.end() == 0

        [attempt] = receiver.named("trace")
        assert (attempt.service, attempt.trace, attempt.parent) == ("tracehouse-worker", trace, span)
        assert {"queue", "loading", "checking", "storing"} <= {*receiver.children(attempt)}
        assert not [one for one in receiver.spans if one.trace != trace]


def test_a_worker_is_not_ready_while_the_database_is_away_or_silent(cluster: Cluster, api: Service) -> None:
    """It says so at once, and waits for no answer."""
    with DatabaseRelay.open(cluster.database_url) as relay:
        worker = cluster.start_worker(api, "--port", "0", DATABASE_URL=relay.url)
        assert get(f"{worker.address}/readyz").status_code == 200

        relay.cut()

        away = get(f"{worker.address}/readyz")
        assert (away.status_code, away.json()["code"]) == (503, "storage-unavailable"), away.text
        assert get(f"{worker.address}/livez").status_code == 200, "a restart would not mend it"
        assert Scrape.of(get(f"{worker.address}/metrics")).value("tracehouse_database_up") == 0
        relay.mend()
        wait_until(lambda: get(f"{worker.address}/readyz").status_code == 200)

        relay.fall_silent()

        wait_until(lambda: get(f"{worker.address}/readyz").status_code == 503)
        assert get(f"{worker.address}/readyz").json()["code"] == "storage-unavailable"
        assert get(f"{worker.address}/livez").status_code == 200
        relay.go_on()
        wait_until(lambda: get(f"{worker.address}/readyz").status_code == 200)
        assert worker.end() == 0


def test_a_worker_that_was_cut_off_joins_again_and_what_it_ran_ends_once(cluster: Cluster, api: Service) -> None:
    """Cut off for so long that it counts as lost: nobody else is there to take what it ran."""
    with DatabaseRelay.open(cluster.database_url) as relay, api.client() as client:
        worker = cluster.start_worker(api, "--port", "0", DATABASE_URL=relay.url)
        request = client.post("/trace", json=linear(source=slow_source(), model="cut-off")).json()
        wait_until_running(client, request["id"])

        relay.cut()
        wait_until(lambda: client.get(f"/trace/{request['id']}").json()["state"] == "queued")
        wait_until(lambda: client.get(f"/trace/{request['id']}").json()["waiting"] == "no worker in pool cpu")
        relay.mend()

        after = ended(client, client.get(f"/trace/{request['id']}"))
        assert after["state"] == "succeeded"
        assert after["attempt"] >= 2  # more where a busy machine keeps a worker silent for too long
        assert kinds_of_events(client, after)["end"] == 1
        assert [version["version"] for version in client.get("/models/cut-off").json()["versions"]] == [1]
        assert ended(client, client.post("/trace", json=new()))["verdict"] == "verified", "it takes others, too"
        assert get(f"{worker.address}/readyz").status_code == 200
        assert worker.end() == 0


def test_a_worker_answers_nothing_else_and_nobody_keeps_its_port_from_others(cluster: Cluster, api: Service) -> None:
    worker = cluster.start_worker(api, "--port", "0")
    address = httpx.URL(worker.address)
    with ExitStack() as opened:
        silent = [socket.create_connection((address.host, address.port or 0), ANSWER_S) for _ in range(100)]
        for one in silent:
            opened.enter_context(closing(one))
        for one in silent[1:]:  # the first says nothing: what arrives at a closed connection may take its answer away
            one.sendall(b"GET /readyz HTTP/1.1\r\n")

        assert b"too-many-connections" in silent[0].makefile("rb").read()
        assert get(f"{worker.address}/readyz").status_code == 200
        for path in ("/", "/trace", "/docs", "/openapi.json", "/models"):
            assert get(worker.address + path).status_code == 404
        with api.client() as client:
            assert ended(client, client.post("/trace", json=new()))["verdict"] == "verified"
        assert worker.end() == 0
