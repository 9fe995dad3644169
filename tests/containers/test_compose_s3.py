"""Workers whose files are in a store of the S3 protocol, which compose starts beside them."""

import hashlib
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from tests.containers.compose import (
    ANSWER_S,
    DOUBLE,
    Compose,
    follow,
    free_port,
    submit,
)

# In the place of SeaweedFS's image, where no registry is reached: moto's server, as in the other tests of S3.
STORE = "tracehouse-s3-stand-in"
STORE_DOCKERFILE = "FROM python:3.11-slim-bookworm\nRUN pip install --no-cache-dir 'moto[server]>=5.1'\n"
STORE_STAND_IN = """
services:
  s3:
    command: moto_server -H 0.0.0.0 -p 8333
    healthcheck:
      test: [CMD, python, -c, "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8333/')"]
"""
LISTS = "import s3fs; print(*s3fs.S3FileSystem().find('tracehouse'), sep='\\n')"


@pytest.fixture(scope="module")
def compose(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    subprocess.run(["docker", "build", "--tag", STORE, "-"], input=STORE_DOCKERFILE, text=True, check=True)
    stand_in = tmp_path_factory.mktemp("compose") / "stand-in.yml"
    stand_in.write_text(STORE_STAND_IN)
    compose = Compose(
        "tracehouse-s3-test",
        [stand_in],
        profile="s3",
        TRACEHOUSE_PORT=str(free_port()),
        S3_IMAGE=STORE,
        BLOB_URL="s3://tracehouse/files",
    )
    try:
        compose("build", "api")
        compose("up", "--no-build", "--detach", "bucket", "api", "worker-cpu")
        compose.wait_until_healthy()
        yield compose
    finally:
        compose("down", "--volumes")


def test_what_a_worker_traces_is_in_the_store_and_answered_from_there(compose: Compose) -> None:
    headers = {"Authorization": f"Bearer {compose.first_key()}"}
    address = f"http://{compose('port', 'api', '8000')}"
    with httpx.Client(base_url=address, headers=headers, timeout=ANSWER_S) as client:
        request = submit(client, DOUBLE, "double")
        for _ in follow(client, request):
            pass
        ended = client.get(f"/trace/{request['id']}").json()
        assert ended["state"] == "succeeded", ended
        archive = client.get(f"/artifacts/{ended['artifacts'][0]['digest']}/archive").raise_for_status().content
        reply = client.post("/infer/double", json={"inputs": {"x": [1, 2.5, -3]}})

    assert reply.json()["outputs"][0]["data"] == [2, 5, -6], reply.text
    listed = compose("exec", "-T", "api", "python", "-c", LISTS).splitlines()
    digest = hashlib.sha256(archive).hexdigest()
    assert f"tracehouse/files/sha256/{digest[:2]}/{digest[2:]}" in listed
