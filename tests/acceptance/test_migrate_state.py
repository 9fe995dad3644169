"""A service that has outgrown one machine: its state goes to PostgreSQL and S3, and it answers the same from there."""

import os
import re
import subprocess
from pathlib import Path

import httpx
import pytest

from migrations.check import empty_schema
from service.environments.environments import Environments
from tests.acceptance.conftest import TRACEHOUSE, Service, StartService, ended, linear
from tests.acceptance.test_keys import keys
from tests.acceptance.test_kill import sleeping, wait_until_running
from tests.acceptance.test_storage import parts
from tests.environments import add_environment
from tests.s3_server import Bucket

DOCS = Path(__file__).parents[2] / "docs"
POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL")
pytestmark = pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")

SCALES = """\
import scales
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x * scales.SCALE
"""
USES_AN_ENVIRONMENT = {"files": {"net.py": SCALES}, "entrypoint": "net:Net"}
CALLS = {"net": {"args": [[1.0]]}, "net@stable": {"args": [[2.5]]}, "net:1": {"args": [[-3.0]]}}


# As the page has them: first what would be moved, then the move.
TRY, MOVE = re.findall(r"^tracehouse migrate-state .*?(?=  |$)", (DOCS / "workers.md").read_text(), re.MULTILINE)


def run(command: str, state: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [str(state) if word == "DIR" else word for word in command.split()[1:]]
    return subprocess.run(
        [TRACEHOUSE, *words], env=os.environ | environment, capture_output=True, text=True, check=False
    )


def key_of(service: Service) -> str:
    """The key that the first start has shown."""
    return re.findall(r"^    (th_\w+)$", service.log.read_text(), re.MULTILINE)[0]


def answers(client: httpx.Client, paths: list[str]) -> dict[str, bytes]:
    """What the service says at each path, and to each call, byte for byte."""
    found = {path: client.get(path).raise_for_status().content for path in paths}
    return found | {
        f"/infer/{model}": client.post(f"/infer/{model}", json=call).raise_for_status().content
        for model, call in CALLS.items()
    }


def test_a_service_on_postgresql_and_s3_answers_what_the_one_on_sqlite_answered(
    start_service: StartService, tmp_path: Path, bucket: Bucket
) -> None:
    add_environment(Environments(tmp_path / "state" / "environments"), "scales", "SCALE = 3.0")
    service = start_service(API_KEYS="required", TRACE_SLOTS="1")
    admin = {"authorization": f"Bearer {key_of(service)}"}
    other = keys(service.state, "create", "other", "--tenant", "other")
    with service.client() as client:
        client.headers.update(admin)
        first = ended(client, client.post("/trace", files=parts("net")))
        second = ended(client, client.post("/trace", files=parts("net", force=True)))
        failed = ended(
            client, client.post("/trace", json=linear(source={"files": {"a.py": "1 / 0"}, "entrypoint": "a:b"}))
        )
        assert [one["state"] for one in (first, second, failed)] == ["succeeded", "succeeded", "failed"]
        assert client.put("/models/net/aliases/stable", json={"version": 1}).status_code == 200
        assert client.put("/tenants/other/quotas", json={"queued_max": 7, "stored_max_bytes": None}).status_code == 200
        digest = first["artifacts"][0]["digest"]
        paths = [
            *(f"/trace/{one['id']}{part}" for one in (first, second, failed) for part in ("", "/log", "/source")),
            *(f"/artifacts/{digest}{part}" for part in ("", "/archive", "/report", "/signature", "/printouts")),
            "/models", "/models/net", "/environments", "/signing-keys", "/tenants/other", "/audit",
            "/webhooks",
        ]  # fmt: skip
        running = client.post("/trace", json=linear(source=sleeping(), model="sleeps")).json()
        wait_until_running(client, running["id"])
        waits = client.post("/trace", json=linear(source=USES_AN_ENVIRONMENT, model="waits", environment="scales"))
        assert client.post("/webhooks", json={"url": "https://example.com/hook"}).status_code == 201
        before = answers(client, paths)
    environment = {"DATABASE_URL": "", "BLOB_URL": bucket.url}
    assert POSTGRES_URL is not None
    with empty_schema(POSTGRES_URL) as environment["DATABASE_URL"]:
        refused = run(MOVE, service.state, environment)
        assert (refused.returncode, "stop the service first" in refused.stderr) == (2, True)
        service.kill()

        tried = run(TRY, service.state, environment)
        moved = run(MOVE, service.state, environment)

        assert moved.returncode == 0, moved.stderr
        assert tried.stdout.replace("would be ", "") == moved.stdout
        assert "trace requests that were running: 1 queued again\n" in moved.stdout
        (service.state / "tracehouse.db").unlink()
        (service.state / "blobs").rename(tmp_path / "old blobs")
        there = start_service(API_KEYS="required", TRACE_SLOTS="1", **environment)
        with there.client() as client:
            assert client.get("/models").status_code == 401
            assert client.get("/models", headers={"authorization": f"Bearer {other}"}).json()["models"] == []
            client.headers.update(admin)
            assert answers(client, paths) == before
            assert client.post(f"/trace/{running['id']}/cancel").json()["state"] == "cancelled"
            assert ended(client, waits)["verdict"] == "verified"
            again = client.post("/trace", files=parts("net"))
            assert (again.status_code, again.json()["id"]) == (200, second["id"])  # the same content
            third = ended(client, client.post("/trace", files=parts("net", force=True)))
            assert third["model"]["version"] == 3, third
            actions = [one["action"] for one in client.get("/audit").json()["entries"]]
            assert actions.count("trace.submit") == 6
        there.close()
