"""The containers with their files in a volume that all of them have, in the place of a store."""

import hashlib
from collections.abc import Iterator

import httpx
import pytest

from tests.containers.compose import (
    ANSWER_S,
    DOUBLE,
    Compose,
    archive_of,
    follow,
    free_port,
    submit,
)

# As docs/how-to/containers.md has it.
NO_STORE = """
services:
  s3:
    scale: 0
  bucket:
    scale: 0
"""
DIRECTORY = "/var/lib/tracehouse-files"


@pytest.fixture(scope="module")
def compose(store_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    no_store = tmp_path_factory.mktemp("compose") / "no-store.yml"
    no_store.write_text(NO_STORE)
    compose = Compose(
        "tracehouse-directory-test",
        [no_store],
        TRACEHOUSE_PORT=str(free_port()),
        BLOB_URL=f"file://{DIRECTORY}",
    )
    try:
        compose("build", "api")
        compose("up", "--no-build", "--detach")
        compose.wait_until_healthy()
        yield compose
    finally:
        compose("down", "--volumes")


def test_what_a_worker_traces_is_in_the_directory_and_answered_from_there(compose: Compose) -> None:
    headers = {"Authorization": f"Bearer {compose.first_key()}"}
    address = f"http://{compose('port', 'api', '8000')}"
    with httpx.Client(base_url=address, headers=headers, timeout=ANSWER_S) as client:
        request = submit(client, DOUBLE, "double")
        for _ in follow(client, request):
            pass
        archive = archive_of(client, request)
        reply = client.post("/infer/double", json={"inputs": {"x": [1, 2.5, -3]}})

    assert reply.json()["outputs"][0]["data"] == [2, 5, -6], reply.text
    digest = hashlib.sha256(archive).hexdigest()
    kept = compose("exec", "-T", "worker-cpu", "sha256sum", f"{DIRECTORY}/sha256/{digest[:2]}/{digest[2:]}")
    assert kept.split()[0] == digest
    assert compose("ps", "--all", "--quiet", "s3", "bucket") == "", "nobody needs a store"


def test_a_store_that_nobody_asked_for_is_no_hindrance(compose: Compose) -> None:
    """Without the file that leaves it out: it is started, and gets no bucket."""
    beside = Compose("tracehouse-unused-store-test", BLOB_URL=f"file://{DIRECTORY}")
    try:
        beside("up", "--no-build", "--detach", "bucket")
        assert beside.wait_until_ended("bucket") == [0]
        lists = ["python", "-c", "import s3fs; print(s3fs.S3FileSystem().ls(''))"]
        assert beside("run", "--rm", "--no-deps", "-T", "bucket", *lists) == "[]"
    finally:
        beside("down", "--volumes")
