"""A backup that is made while the service works, by the commands of docs/operations.md; a service begins on it.

Rows first, files second: a row names a file only once the file is there.
"""

import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import Service, StartService, ended, linear
from tests.acceptance.test_kill import Submitter, slow_source, wait_until_running
from tests.acceptance.test_workers import Cluster
from tests.conftest import wait_until
from tests.postgres_server import PostgresServer, why_there_is_none

COPY = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]))"
X = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}]}


def what_it_answers(client: httpx.Client) -> tuple[Any, Any]:
    answer = client.post("/infer/linear", json=X)
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"], client.get("/signing-keys").json()


def test_a_service_begins_on_a_backup_that_was_made_while_it_worked(
    start_service: StartService, tmp_path: Path
) -> None:
    service, backup = start_service(), tmp_path / "backup"
    backup.mkdir()
    with service.client() as client:
        ended(client, client.post("/trace", json=linear()))
        before = what_it_answers(client)
        slow = client.post("/trace", json=linear(source=slow_source(), model="slow")).json()
        wait_until_running(client, slow["id"])
    submitter = Submitter(service)
    submitter.start()
    wait_until(lambda: len(submitter.acknowledged) > 1)

    subprocess.run(["python3", "-c", COPY, service.state / "tracehouse.db", backup / "tracehouse.db"], check=True)
    for directory in ("blobs", "signing", "environments"):
        shutil.copytree(service.state / directory, backup / directory)
    submitter.done.set()
    submitter.join()
    service.kill()

    with ExitStack() as running:
        restored = Service(backup)
        running.callback(restored.close)
        with restored.client() as client:
            assert what_it_answers(client) == before
            for known in client.get("/trace", params={"limit": 100}).json()["trace_requests"]:
                assert ended(client, client.get(f"/trace/{known['id']}"))["state"] == "succeeded", known
            assert client.get("/trace/" + slow["id"]).json()["attempt"] == 2, "it ran when the backup was made"
            assert client.get("/readyz").json()["damaged_files"] == []


@pytest.mark.skipif(why_there_is_none() is not None, reason=f"no PostgreSQL of its own: {why_there_is_none()}")
def test_processes_begin_on_a_backup_of_postgresql_and_the_files(tmp_path: Path) -> None:
    with PostgresServer() as server, PostgresServer() as other, ExitStack() as running:
        cluster = Cluster(tmp_path, server.url, running)
        api = cluster.start_api("api")
        worker = cluster.start_worker(api)
        with api.client() as client:
            ended(client, client.post("/trace", json=linear()))
            before = what_it_answers(client)
            worker.end()
            waits = client.post("/trace", json=linear(model="waits")).json()

        dump, backup = tmp_path / "tracehouse.dump", tmp_path / "restored"
        subprocess.run(["pg_dump", "--format", "custom", "--file", dump, server.url], check=True)
        shutil.copytree(tmp_path / "files", backup / "files")
        shutil.copytree(api.state / "signing", backup / "api" / "signing")
        api.kill()
        subprocess.run(["pg_restore", "--dbname", other.url, "--no-owner", dump], check=True)

        restored = Cluster(backup, other.url, running)
        api = restored.start_api("api")
        restored.start_worker(api)
        with api.client() as client:
            assert what_it_answers(client) == before
            assert ended(client, client.get(f"/trace/{waits['id']}"))["verdict"] == "verified"
