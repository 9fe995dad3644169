"""A service that asks for keys, and the command that makes them beside it."""

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import TRACEHOUSE, Service, ended, get, linear
from tests.conftest import wait_until


def keys(state: Path, *arguments: str) -> str:
    command = [TRACEHOUSE, "keys", *arguments, "--state", state]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One that other machines can ask, on a directory that was there before it."""
    state = tmp_path_factory.mktemp("public") / "state"
    state.mkdir(mode=0o755)
    running = Service(state, host="0.0.0.0")
    yield running
    running.close()


def test_a_key_is_good_from_when_it_is_made_until_it_is_revoked(public: Service) -> None:
    assert '"API keys are on' in public.log.read_text()
    made = keys(public.state, "create", "me", "--tenant", "mine")
    with public.client() as client:
        client.headers["authorization"] = f"Bearer {made}"
        assert ended(client, client.post("/trace", json=linear()))["state"] == "succeeded"
        assert client.post("/infer/linear", json={"args": [[[1, 2]]]}).status_code == 200
        keys(public.state, "revoke", made[: len("th_12345678")])
        wait_until(lambda: client.get("/trace").status_code == 401)  # another process made and revoked it
    assert get(f"{public.address}/trace").status_code == 401
    assert f'"key": "{made[: len("th_12345678")]}", "tenant": "mine"' in public.log.read_text()
    assert made[len("th_12345678") :] not in public.log.read_text()


def test_the_first_start_shows_a_key_once_and_the_next_one_none(public: Service) -> None:
    [key] = re.findall(r"^    (th_\w+)$", public.log.read_text(), re.MULTILINE)
    with public.client() as client:
        assert client.get("/tenants").status_code == 401
        client.headers["authorization"] = f"Bearer {key}"
        assert client.get("/tenants").status_code == 200
        assert ended(client, client.post("/trace", json=linear()))["state"] == "succeeded"
    public.terminate()

    public.start()

    assert public.log.read_text().count(key[len("th_12345678") :]) == 1
    with public.client() as client:
        assert client.get("/models", headers={"authorization": f"Bearer {key}"}).status_code == 200


@pytest.mark.parametrize("command", [["keys", "create", "me"], ["serve", "--host", "0.0.0.0", "--port", "0"]])
def test_a_state_directory_is_made_for_its_own_user_alone(tmp_path: Path, command: list[str]) -> None:
    state = tmp_path / "new" / "state"
    no_key = tmp_path / "no-key"
    no_key.touch()
    environment = os.environ | {"FIRST_KEY_FILE": str(no_key)}  # with which it does not go on serving
    subprocess.run([TRACEHOUSE, *command, "--state", state], capture_output=True, check=False, env=environment)

    assert {mode(path) for path in (state.parent, state)} == {0o700}
    assert mode(state / "tracehouse.db") == 0o600


def test_what_a_service_keeps_is_for_its_own_user_alone(public: Service) -> None:
    state = public.state
    with public.client() as client:
        client.headers["authorization"] = f"Bearer {keys(state, 'create', 'looks')}"
        ended(client, client.post("/trace", json=linear()))

    kept = [path for path in state.rglob("*") if path != public.log]
    assert {path.name for path in kept} > {"tracehouse.db", "blobs"}
    assert any(path.is_file() for path in kept if "sha256" in path.parts)
    assert {mode(path) for path in kept if path.is_file()} == {0o600}
    assert {mode(path) for path in kept if path.is_dir() and path.name != "environments"} == {0o700}
    assert mode(state / "environments") == 0o755, "jailed code may run as another user, and imports from there"
    assert mode(state) == 0o755, "it was there before"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_where_only_this_machine_can_ask_nobody_needs_one(service: Service) -> None:
    assert '"API keys are off' in service.log.read_text()
    with service.client() as client:
        assert client.get("/trace").status_code == 200
        assert client.get("/trace", headers={"host": "tracehouse.example"}).status_code == 403
