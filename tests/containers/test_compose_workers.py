"""What `docker-compose up` starts: workers, PostgreSQL and a store of their own, driven over HTTP, with some killed."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.containers.compose import (
    ANSWER_S,
    DOUBLE,
    READY_S,
    ROOT,
    Compose,
    archive_of,
    follow,
    free_port,
    submit,
)

# Long enough to be killed in, and short enough to be waited for.
SLOW = f"import time\ntime.sleep(5)\n{DOUBLE}"


@pytest.fixture(scope="module")
def compose(store_image: str) -> Iterator[Compose]:
    compose = Compose("tracehouse-workers-test", TRACEHOUSE_PORT=str(free_port()), WORKER_SLOTS="1")
    try:
        compose("build", "api")
        compose("up", "--no-build", "--detach")
        compose.wait_until_healthy()
        compose.wait_until_healthy("worker-cpu")
        compose.wait_until_healthy("infer")
        yield compose
    finally:
        compose("down", "--volumes")


@pytest.fixture(scope="module")
def client(compose: Compose) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {compose.first_key()}"}
    address = f"http://{compose('port', 'api', '8000')}"
    with httpx.Client(base_url=address, headers=headers, timeout=ANSWER_S) as client:
        yield client


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def test_a_model_is_traced_by_a_worker_and_answered_by_the_api(client: httpx.Client) -> None:
    request = submit(client, DOUBLE, "double")
    kinds = Counter(line for line in follow(client, request) if line.startswith("event:"))

    assert kinds["event: end"] == 1
    ended = client.get(f"/trace/{request['id']}").json()
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended
    reply = client.post("/infer/double", json={"inputs": {"x": [1, 2.5, -3]}})
    assert reply.json()["outputs"][0]["data"] == [2, 5, -6], reply.text


LISTS = "import s3fs; print(*s3fs.S3FileSystem().find('tracehouse'), sep='\\n')"


def test_what_a_worker_traces_is_in_the_store_and_nowhere_else(compose: Compose, client: httpx.Client) -> None:
    request = submit(client, DOUBLE.replace("2", "3"), "treble")
    for _ in follow(client, request):
        pass
    archive = archive_of(client, request)

    listed = compose("exec", "-T", "worker-cpu", "python", "-c", LISTS).splitlines()

    digest = hashlib.sha256(archive).hexdigest()
    assert f"tracehouse/files/sha256/{digest[:2]}/{digest[2:]}" in listed
    assert compose("exec", "-T", "worker-cpu", "ls", "/var/lib/tracehouse-files") == ""


def test_a_killed_store_has_its_files_again_when_it_is_back(compose: Compose, client: httpx.Client) -> None:
    request = submit(client, DOUBLE.replace("2", "4"), "fourfold")
    for _ in follow(client, request):
        pass
    docker("kill", compose("ps", "--quiet", "s3"))
    without = wait_for_readiness(client, 503)
    compose("up", "--no-build", "--detach", "s3")

    assert without["type"].endswith("/files-unavailable")
    wait_for_readiness(client, 200)
    digest = hashlib.sha256(archive_of(client, request)).hexdigest()
    program = "import hashlib, s3fs, sys; print(hashlib.sha256(s3fs.S3FileSystem().cat(sys.argv[1])).hexdigest())"
    place = f"tracehouse/files/sha256/{digest[:2]}/{digest[2:]}"
    assert compose("exec", "-T", "worker-cpu", "python", "-c", program, place) == digest


def test_the_session_of_the_readme_works_against_it(compose: Compose, client: httpx.Client) -> None:
    environment = os.environ | {"TRACEHOUSE_URL": str(client.base_url), "TRACEHOUSE_KEY": compose.first_key()}
    command = [Path(sys.executable).with_name("tracehouse"), "trace", "examples/net.py:Net", "--input", "1x2"]
    traced = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    assert ("aten::relu" in traced, "verdict: verified   model: net:1" in traced) == (True, True), traced
    answers = [client.post("/infer/net", json={"args": [rows]}) for rows in ([[1, 2]], [[1, 2], [3, 4]], [[1, 2, 3]])]
    assert [answer.status_code for answer in answers] == [200, 200, 422], answers[-1].text
    assert [len(answer.json()["outputs"][0]["data"]) for answer in answers[:2]] == [3, 6]


ASKS = """
import sys, urllib.error, urllib.request
request = urllib.request.Request("http://infer:8000" + sys.argv[1], sys.argv[3].encode() or None)
request.add_header("Authorization", "Bearer " + sys.argv[2])
request.add_header("Content-Type", "application/json")
try:
    print(urllib.request.urlopen(request).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""


def test_other_containers_ask_the_process_for_inference_and_it_answers_nothing_else(
    compose: Compose, client: httpx.Client
) -> None:
    for _ in follow(client, submit(client, DOUBLE, "asked")):
        pass

    def ask(path: str, body: dict[str, Any] | None = None) -> str:
        text = "" if body is None else json.dumps(body)
        return compose("exec", "-T", "worker-cpu", "python", "-c", ASKS, path, compose.first_key(), text)

    assert json.loads(ask("/infer/asked", {"inputs": {"x": [1, 2.5, -3]}}))["outputs"][0]["data"] == [2, 5, -6]
    assert ask("/trace") == "404"


def wait_for_readiness(client: httpx.Client, status: int) -> dict[str, Any]:
    deadline = time.monotonic() + READY_S
    while (answer := client.get("/readyz")).status_code != status:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.5)
    ready: dict[str, Any] = answer.json()
    return ready


def wait_until_loading(client: httpx.Client, request: dict[str, Any]) -> None:
    """Return when a worker has begun the trace request."""
    for line in follow(client, request):
        if '"loading"' in line:
            break


def test_what_a_killed_worker_ran_ends_in_the_next_one(compose: Compose, client: httpx.Client) -> None:
    request = submit(client, SLOW, "slow")
    wait_until_loading(client, request)
    docker("kill", compose("ps", "--quiet", "worker-cpu"))
    compose("up", "--no-build", "--detach", "worker-cpu")

    kinds = Counter(line for line in follow(client, request) if line.startswith("event:"))

    assert kinds["event: end"] == 1
    ended = client.get(f"/trace/{request['id']}").json()
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2), ended
    assert [one["version"] for one in client.get("/models/slow").json()["versions"]] == [1]


def test_what_a_worker_runs_ends_although_the_api_is_killed(compose: Compose, client: httpx.Client) -> None:
    request = submit(client, SLOW, "goes-on")
    wait_until_loading(client, request)
    docker("kill", compose("ps", "--quiet", "api"))
    compose("up", "--no-build", "--detach", "api")
    compose.wait_until_healthy()

    kinds = Counter(line for line in follow(client, request) if line.startswith("event:"))

    assert kinds["event: end"] == 1
    ended = client.get(f"/trace/{request['id']}").json()
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended
    reply = client.post("/infer/goes-on", json={"inputs": {"x": [1, 2.5, -3]}})
    assert reply.json()["outputs"][0]["data"] == [2, 5, -6], reply.text


def test_the_jail_needs_no_privilege(compose: Compose, client: httpx.Client) -> None:
    assert client.get("/readyz").json()["sandbox"]["tier"] == "landlock"
    assert "artifacts are signed" in compose("logs", "--no-color", "worker-cpu"), "the worker's jail keeps its key"


def test_the_api_alone_can_be_reached_and_reaches_the_outside(compose: Compose) -> None:
    service = '{{index .Config.Labels "com.docker.compose.service"}}'
    ports = "{{range $port, $bound := .NetworkSettings.Ports}}{{if $bound}}{{$port}} {{end}}{{end}}"
    networks = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}"
    containers = compose("ps", "--all", "--quiet").split()

    lines = docker("inspect", "--format", f"{service};{ports};{networks}", *containers).splitlines()

    published, joined = {}, {}
    for line in lines:
        name, its_ports, its_networks = line.split(";")
        published[name], joined[name] = its_ports.split(), its_networks.split()
    assert published == {
        name: ["8000/tcp"] if name == "api" else []
        for name in ("api", "bucket", "infer", "migrate", "postgres", "s3", "secrets", "worker-cpu")
    }
    [inside] = joined["worker-cpu"]
    assert docker("network", "inspect", "--format", "{{.Internal}}", inside) == "true"
    assert [joined[name] for name in ("postgres", "migrate", "s3", "bucket", "infer")] == [[inside]] * 5
    assert joined["secrets"] == ["none"]
    assert len(joined["api"]) == 2


def test_no_container_fills_the_disk_with_what_it_prints(compose: Compose) -> None:
    containers = compose("ps", "--all", "--quiet").split()

    drivers = docker("inspect", "--format", "{{.HostConfig.LogConfig.Type}}", *containers).split()

    assert set(drivers) == {"local"}, "of which Docker keeps 100 MB, unless it is told otherwise"


def test_a_secret_is_made_once_and_kept(compose: Compose, client: httpx.Client) -> None:
    read = ["exec", "-T", "api", "cat", "/var/lib/tracehouse-secrets/database-password"]
    before = compose(*read)

    compose("up", "--no-build", "--detach", "--force-recreate", "secrets")
    docker("wait", compose("ps", "--all", "--quiet", "secrets"))

    assert (len(before), compose(*read)) == (48, before)
    assert client.get("/readyz").status_code == 200
