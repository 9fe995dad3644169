"""A service that asks for keys, and the command that makes them beside it."""

import subprocess
from pathlib import Path

import httpx

from tests.acceptance.conftest import TRACEHOUSE, StartService, ended, linear


def keys(state: Path, *arguments: str) -> str:
    command = [TRACEHOUSE, "keys", *arguments, "--state", state]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def test_a_key_is_good_from_when_it_is_made_until_it_is_revoked(start_service: StartService, tmp_path: Path) -> None:
    state = tmp_path / "state"
    keys(state, "create", "first")
    service = start_service(host="0.0.0.0")
    assert '"API keys are on' in service.log.read_text()
    made = keys(state, "create", "me", "--tenant", "mine")
    with service.client() as client:
        client.headers["authorization"] = f"Bearer {made}"
        assert ended(client, client.post("/trace", json=linear()))["state"] == "succeeded"
        assert client.post("/infer/linear", json={"args": [[[1, 2]]]}).status_code == 200
        keys(state, "revoke", made[: len("th_12345678")])
        assert client.get("/trace").status_code == 401
    assert httpx.get(f"{service.address}/trace").status_code == 401
    assert made[len("th_12345678") :] not in service.log.read_text()


def test_where_only_this_machine_can_ask_nobody_needs_one(start_service: StartService) -> None:
    service = start_service()

    assert '"API keys are off' in service.log.read_text()
    with service.client() as client:
        assert client.get("/trace").status_code == 200
        assert client.get("/trace", headers={"host": "tracehouse.example"}).status_code == 403
