"""What the service stores: damaged bytes never answer, and a tenant stores no more than its quota."""

import hashlib
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy

from tests.acceptance.conftest import StartService, ended
from tests.acceptance.test_keys import keys

np = pytest.importorskip("numpy")

SCALED = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x * self.scale
"""
SCALE = np.array([1.25], "f4")
WEIGHTS = safetensors.numpy.save({"scale": SCALE})
PRINTS = "import sys\nprint('\\0' * 2**20)\nsys.exit('no model')\n"


def submission(model: str, source: str, **members: Any) -> dict[str, Any]:
    x = {"datatype": "FP32", "shape": [1], "data": [0.0]}
    return {"model": model, "source": {"files": {"net.py": source}, "entrypoint": "net:Net"}, "example_inputs": [x]} | (
        members
    )


def parts(model: str, **members: Any) -> list[Any]:
    request = json.dumps(submission(model, SCALED, weights={"file": "w.safetensors"}, **members))
    return [("request", (None, request, "application/json")), ("files", ("w.safetensors", WEIGHTS))]


def change_scale(state: Path, digest: str) -> None:
    """Flip one bit of the scale in a stored file, so that the file says another number."""
    name = digest.removeprefix("sha256:")
    path = state / "blobs" / "sha256" / name[:2] / name[2:]
    data = bytearray(path.read_bytes())
    data[data.index(SCALE.tobytes()) + 2] ^= 0x80
    path.write_bytes(data)


def test_damaged_bytes_never_answer(start_service: StartService) -> None:
    service = start_service()
    with service.client() as client:
        traced = ended(client, client.post("/trace", files=parts("net")))
        digest = traced["artifacts"][0]["digest"]
        archive = client.get(f"/artifacts/{digest}").json()["archive"]["digest"]
    service.terminate()
    upload = f"sha256:{hashlib.sha256(WEIGHTS).hexdigest()}"
    for damaged in (archive, upload):
        change_scale(service.state, damaged)
    service.start()

    with service.client() as client:
        inferred = client.post("/infer/net", json={"args": [[1.0]]})
        downloaded = client.get(f"/artifacts/{digest}/archive")
        for answer in (inferred, downloaded):
            assert (answer.status_code, answer.json()["code"], answer.json()["digest"]) == (
                500,
                "content-damaged",
                archive,
            )
        assert client.get("/readyz").json()["damaged_files"] == [archive]
        again = ended(client, client.post("/trace", files=parts("again", force=True)))
        assert again["verdict"] == traced["verdict"]
        assert client.post("/infer/again", json={"args": [[1.0]]}).json()["outputs"][0]["data"] == [1.25]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small]
    if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield small
    subprocess.run(["umount", "--lazy", small], check=True)


def test_a_full_disk_loses_nothing_and_is_said(start_service: StartService, small_disk: Path) -> None:
    service = start_service(BLOB_URL=small_disk.as_uri())
    filler = small_disk / "filler"
    with service.client() as client:
        ended(client, client.post("/trace", files=parts("net")))
        with suppress(OSError):
            filler.write_bytes(bytes(2**23))

        large = client.post("/trace", files=[*parts("large", force=True), ("files", ("x.npz", bytes(2**20)))])
        assert (large.status_code, large.json()["code"]) == (503, "disk-full"), large.text
        waits = client.post("/trace", json=submission("late", SCALED, force=True))
        assert waits.status_code == 202, "it has no files"
        full = ended(client, waits)
        assert (full["state"], full["problem"]["code"], full["problem"]["fault"]) == ("failed", "disk-full", "service")
        assert client.post("/infer/net", json={"args": [[1.0]]}).json()["outputs"][0]["data"] == [1.25]
        assert [one["name"] for one in client.get("/models").json()["models"]] == ["net"]

        filler.unlink()
        late = ended(client, client.post("/trace", json=submission("late", SCALED)))
        assert late["state"] == "succeeded", "what has failed is no answer to the same again"
        assert ended(client, client.post("/trace", files=parts("large", force=True)))["state"] == "succeeded"
    assert "disk-full" in service.log.read_text()


def test_a_tenant_stores_no_more_than_its_quota(start_service: StartService, tmp_path: Path) -> None:
    state = tmp_path / "state"
    key = keys(state, "create", "me")
    service = start_service(host="0.0.0.0", TENANT_STORED_MAX_BYTES=str(2**20))
    with service.client() as client:
        client.headers["authorization"] = f"Bearer {key}"
        first = ended(client, client.post("/trace", json=submission("first", PRINTS)))
        log = client.get(first["links"]["log"]).text
        large = client.post("/trace", files=[*parts("large"), ("files", ("x.npz", bytes(2**20)))])
        tenants = [client.post("/trace", json=submission(f"m{number}", PRINTS + "#" * 10_000)) for number in range(9)]
    service.terminate()

    assert log.endswith("[the log is cut: the storage quota has no room for more]\n")
    assert (large.status_code, large.json()["code"]) == (403, "storage-quota-exceeded")
    assert tenants[-1].json()["code"] == "storage-quota-exceeded"
    with sqlite3.connect(state / "tracehouse.db") as database:
        [(texts,)] = database.execute("SELECT sum(length(CAST(data AS BLOB))) FROM events")
    assert texts < 2**20
