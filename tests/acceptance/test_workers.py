"""Processes that answer HTTP and processes that trace, apart, on one PostgreSQL and one directory of files."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from migrations.check import empty_schema
from tests.acceptance.conftest import ANSWER_S, Service, ended, linear, start_process
from tests.acceptance.test_kill import kinds_of_events, slow_source, wait_until_running
from tests.conftest import wait_until

POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL")
pytestmark = pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")


class Worker:
    """`tracehouse worker` in a process of its own, with the state directory of the services."""

    def __init__(self, state: Path, environment: dict[str, str]) -> None:
        command = ["worker", "--pool", "cpu", "--slots", "1", "--state", state]
        self.process, _ = start_process(command, os.environ | environment, state / "worker.log", "worker is ready")

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(by)
        status = self.process.wait(ANSWER_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status


class Cluster:
    """Services with the role api, and workers, that share a database and files."""

    def __init__(self, directory: Path, database_url: str, running: ExitStack) -> None:
        self._directory = directory
        self._running = running
        self._environment = {"DATABASE_URL": database_url, "BLOB_URL": (directory / "files").as_uri()}

    def start_api(self, name: str) -> Service:
        service = Service(self._directory / name, options=("--role", "api"), **self._environment)
        self._running.callback(service.close)
        return service

    def start_worker(self, of: Service) -> Worker:
        worker = Worker(of.state, self._environment)
        self._running.callback(worker.end)
        return worker


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    assert POSTGRES_URL is not None
    with empty_schema(POSTGRES_URL) as url, ExitStack() as running:
        yield Cluster(tmp_path, url, running)


def sleeping() -> dict[str, Any]:
    return {"files": {"sleeps.py": "import time\ntime.sleep(3600)\n"}, "entrypoint": "sleeps:net"}


def test_a_request_is_followed_and_cancelled_through_a_process_that_does_not_run_it(cluster: Cluster) -> None:
    api, other = cluster.start_api("api"), cluster.start_api("other")
    with api.client() as client, other.client() as other_client:
        first = client.post("/trace", json=linear(source=sleeping(), model="sleeps")).json()
        assert first["waiting"] == "no worker in pool cpu"
        worker = cluster.start_worker(api)
        wait_until_running(other_client, first["id"])
        second = client.post("/trace", json=linear())

        assert other_client.post(f"/trace/{first['id']}/cancel").json()["state"] == "cancelled"

        assert ended(other_client, second)["verdict"] == "verified"  # in the slot that the first one had
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}
        answer = other_client.post("/infer/linear", json={"inputs": [tensor]})
        assert answer.status_code == 200, answer.text
    assert worker.end() == 0


def test_what_a_killed_worker_ran_ends_once_in_another_one(cluster: Cluster) -> None:
    api = cluster.start_api("api")
    killed = cluster.start_worker(api)
    with api.client() as client:
        request = client.post("/trace", json=linear(source=slow_source(), model="slow")).json()
        wait_until_running(client, request["id"])
        killed.end(signal.SIGKILL)
        cluster.start_worker(api)

        after = ended(client, client.get(f"/trace/{request['id']}"))

        assert (after["state"], after["attempt"]) == ("succeeded", 2)
        assert kinds_of_events(client, after)["end"] == 1
        assert [version["version"] for version in client.get("/models/slow").json()["versions"]] == [1]


def test_a_worker_that_is_stopped_gives_its_request_to_another_one_at_once(cluster: Cluster) -> None:
    """It counts as no fault, and nobody has to find out that the worker is gone."""
    api = cluster.start_api("api")
    stopped = cluster.start_worker(api)
    with api.client() as client:
        request = client.post("/trace", json=linear(source=sleeping(), model="sleeps")).json()
        wait_until_running(client, request["id"])

        assert stopped.end() == 0

        assert client.get(f"/trace/{request['id']}").json()["state"] == "queued"
        cluster.start_worker(api)
        wait_until(lambda: client.get(f"/trace/{request['id']}").json()["attempt"] == 2)
        client.post(f"/trace/{request['id']}/cancel")
