"""A signature from a real service to `tracehouse verify`, and where the key is not."""

import subprocess
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.conftest import LINEAR, TRACEHOUSE, Service, get, linear

READS_THE_KEY = """
import glob
try:
    for path in [{path!r}, "/proc/self/environ"]:
        print(open(path).read())
except OSError as error:
    print("refused")
"""


def verify(archive: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TRACEHOUSE, "verify", archive, *options], capture_output=True, text=True, check=False)


def traced(service: Service, submitted: dict[str, Any]) -> dict[str, Any]:
    reply = httpx.post(f"{service.address}/trace", json=submitted, headers={"prefer": "wait=300"}, timeout=400).json()
    assert reply["state"] == "succeeded", reply
    return reply


def test_an_archive_is_known_by_the_signature_of_the_service_that_made_it(service: Service, tmp_path: Path) -> None:
    private = (service.state / "signing" / "private.pem").read_text()
    source = {"files": {"net.py": LINEAR + READS_THE_KEY.format(path=str(service.state / "signing" / "private.pem"))}}
    reply = traced(service, linear(model="signed", source={**source, "entrypoint": "net:Net"}))
    artifact = get(f"{service.address}/artifacts/{reply['artifacts'][0]['digest']}").json()
    archive, key = tmp_path / "net.pt", tmp_path / "key.pem"
    archive.write_bytes(get(service.address + artifact["links"]["archive"]).content)
    (tmp_path / "net.pt.dsse.json").write_bytes(get(service.address + artifact["links"]["signature"]).content)
    [first] = get(f"{service.address}/signing-keys").json()["signing_keys"]
    key.write_text(first["public_key"])

    by_digest = verify(archive, "--digest", artifact["archive"]["digest"])
    by_key = verify(archive, "--key", key)
    alone = verify(archive)

    assert [each.returncode for each in (by_digest, by_key, alone)] == [0, 0, 3], by_key.stdout + by_key.stderr
    assert f"ok    verdict              {reply['verdict']}, says whoever has this key" in by_key.stdout
    log = get(f"{service.address}/trace/{reply['id']}/log").text
    assert "refused" in log
    assert "PRIVATE KEY" not in log
    assert not any(line in service.log.read_text() for line in private.splitlines()[1:-1])

    service.terminate()
    subprocess.run([TRACEHOUSE, "signing-keys", "rotate", "--state", service.state], check=True)
    service.start()

    listed = get(f"{service.address}/signing-keys").json()["signing_keys"]
    again = traced(service, linear(model="signed", force=True))
    signed = get(f"{service.address}/artifacts/{again['artifacts'][0]['digest']}/signature").json()
    assert [(each["is_current"], each["id"] == first["id"]) for each in listed] == [(True, False), (False, True)]
    assert signed["signatures"][0]["keyid"] == listed[0]["id"]
    assert verify(archive, "--key", key).returncode == 0, "what an earlier key signed stays signed"
