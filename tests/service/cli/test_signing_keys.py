"""`tracehouse signing-keys` shows and changes the keys in a state directory."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from service.cli import app
from service.signing.signing_keys import SigningKeys
from tracehouse.artifact.signature import PublicKey

Command = Callable[..., Result]


@pytest.fixture
def keys(tmp_path: Path) -> SigningKeys:
    """Those of the service."""
    return SigningKeys(tmp_path / "signing")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return lambda *arguments, **environment: CliRunner().invoke(
        app, ["signing-keys", *arguments, "--state", str(tmp_path)], env=environment
    )


def test_the_key_that_signs_is_printed(command: Command, keys: SigningKeys) -> None:
    current = PublicKey(keys.open().public_key())

    shown = command("show")

    assert (shown.exit_code, shown.stdout) == (0, current.pem)
    assert current.id in shown.stderr


def test_an_earlier_key_is_listed_and_printed_by_its_id(command: Command, keys: SigningKeys) -> None:
    first = PublicKey(keys.open().public_key())

    rotated = command("rotate")
    listed = command("list").stdout.splitlines()

    current = PublicKey(keys.open().public_key())
    assert current.id in rotated.stdout
    assert listed == [f"{current.id}  signs now", f"{first.id}  signed before"]
    assert command("show", first.id).stdout == first.pem
    assert command("show", "sha256:0").exit_code == 2


def test_before_the_first_start_there_is_none(command: Command, tmp_path: Path) -> None:
    shown = command("show")
    assert (shown.exit_code, f"There are no keys in {tmp_path}" in shown.stderr) == (2, True)
    assert "STATE_DIR" in shown.stderr
    assert "There are no keys" in command("list").stderr
    assert [*tmp_path.iterdir()] == []


def test_no_command_prints_a_private_key(command: Command, keys: SigningKeys) -> None:
    private = keys.open()
    keys.private_file.chmod(0o644)
    secret = keys.private_file.read_text().splitlines()[1]

    refused = command("show")
    keys.private_file.chmod(0o600)
    printed = [refused, command("show"), command("list"), command("rotate")]

    assert refused.exit_code == 2
    assert "other users may read" in refused.stderr
    assert private.private_bytes_raw().hex() not in "".join(each.output for each in printed)
    assert secret not in "".join(each.output for each in printed)


def test_the_keys_are_printed_for_programs(command: Command, keys: SigningKeys) -> None:
    keys.open()
    before = json.loads(command("list", "--json").stdout)["signing_keys"]
    rotated = json.loads(command("rotate", "--json").stdout)
    after = json.loads(command("list", "--json").stdout)["signing_keys"]

    assert [one["is_current"] for one in before] == [True]
    assert {one["algorithm"] for one in (*before, rotated, *after)} == {"Ed25519"}, "as GET /signing-keys has them"
    assert [one["is_current"] for one in after] == [True, False]
    assert after[1]["id"] == before[0]["id"]
    assert after[0] == rotated == json.loads(command("show", "--json").stdout)
    assert after[0]["public_key"] == command("show").stdout
    assert after[1] == json.loads(command("show", after[1]["id"], "--json").stdout)
