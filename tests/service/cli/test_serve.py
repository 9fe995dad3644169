"""`tracehouse serve` asks for a key unless only this machine can ask, and does not start with what it cannot use."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import Result
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from service.cli import app
from service.domain.api_key import Scope
from service.storage.database import Store
from tests.conftest import NewStore


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """The command takes the log for itself, which is right in a process of its own."""
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def serve(state: Path, *options: str, **environment: str) -> Result:
    return CliRunner().invoke(app, ["serve", "--port", "0", "--state", str(state), *options], env=environment)


def last_line(ended: Result) -> str:
    return ended.stderr.splitlines()[-1]


def test_a_file_that_has_no_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "first-key.txt"
    file.write_text("secret")

    ended = serve(tmp_path / "state", API_KEYS="required", FIRST_KEY_FILE=str(file))

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert last_line(ended) == f"FIRST_KEY_FILE: {file} has no API key; `tracehouse keys generate` prints one."
    assert "secret" not in ended.stderr


def test_keys_that_open_nothing_are_no_keys(new_store: NewStore, tmp_path: Path) -> None:
    store: Store = new_store(tmp_path)
    store.api_keys.create("old", "acme", [*Scope], expires_at=datetime.now(UTC) - timedelta(days=1))
    key, _ = store.api_keys.create("gone", "acme", [*Scope])
    store.api_keys.revoke(key.prefix)
    store.close()

    ended = serve(tmp_path, "--host", "0.0.0.0")

    assert ended.exit_code == 2
    assert "have expired or were revoked" in last_line(ended)
    assert f"tracehouse keys create NAME --state {tmp_path}" in last_line(ended)


def test_it_takes_no_other_word_for_it(tmp_path: Path) -> None:
    ended = serve(tmp_path, "--host", "0.0.0.0", API_KEYS="off")

    assert (ended.exit_code, last_line(ended).startswith("API_KEYS: ")) == (2, True)


def test_with_slots_for_gpus_it_starts_only_where_submitted_code_is_not_confined(tmp_path: Path) -> None:
    ended = serve(tmp_path, GPU_SLOTS="1")

    assert ended.exit_code == 2
    assert last_line(ended).startswith("GPU_SLOTS needs SANDBOX=i-accept-no-isolation")


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU here")
def test_with_slots_for_gpus_it_starts_only_where_there_is_one(tmp_path: Path) -> None:
    ended = serve(tmp_path, GPU_SLOTS="1", SANDBOX="i-accept-no-isolation")

    assert ended.exit_code == 2
    assert "finds no GPU here" in last_line(ended)


def test_a_service_does_not_start_with_a_key_that_submitted_code_may_read(tmp_path: Path) -> None:
    among_packages = Path(serialization.__file__).parent / "key-of-a-test.pem"
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    among_packages.write_bytes(pem)
    try:
        ended = serve(tmp_path, SIGNING_KEY=str(among_packages))
    finally:
        among_packages.unlink()

    assert ended.exit_code == 2
    assert f"submitted code may read {among_packages}" in ended.stderr


def test_a_service_does_not_start_with_a_file_that_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("no key")

    ended = serve(tmp_path, SIGNING_KEY=str(tmp_path / "key.pem"))

    assert ended.exit_code == 2
    assert "has no private key in PEM form" in ended.stderr


@pytest.mark.parametrize("host", ["nowhere.invalid", "two..dots"])
def test_a_host_that_is_none_is_named(tmp_path: Path, host: str) -> None:
    ended = serve(tmp_path, "--host", host)

    assert ended.exit_code == 2
    assert last_line(ended).startswith(f"Cannot listen on {host}, port 0 (")


def test_a_port_for_grpc_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve(tmp_path, "--grpc-port", str(port))

    assert ended.exit_code == 2
    assert last_line(ended).startswith(f"Cannot listen on port {port} for gRPC")


def test_without_its_packages_grpc_is_refused_and_all_else_starts(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError('there is no grpc here')")
    tracehouse = Path(sys.executable).with_name("tracehouse")
    command = [tracehouse, "serve", "--port", "0", "--state", str(tmp_path / "state")]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    ended = subprocess.run([*command, "--grpc-port", "0"], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "pip install 'tracehouse-service[grpc]'" in ended.stderr.splitlines()[-1]

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as plain:
        assert plain.stdout is not None
        ready = plain.stdout.readline()
        plain.terminate()
    assert b"is ready at" in ready
