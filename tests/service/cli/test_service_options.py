"""How the commands ask a service: they wait for one that is starting, and look before they send much."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from tests.conftest import PATIENCE_S
from tests.service.cli.answers import answering
from tracehouse.client import pace

NO_MODELS: tuple[int, Any] = (200, {"models": [], "next_cursor": None})


@pytest.fixture
def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_a_service_that_is_not_ready_is_waited_for_and_that_is_said_once() -> None:
    asked: list[str] = []

    def answer(method: str, path: str, sent: Any) -> tuple[int, Any]:
        asked.append(path)
        return NO_MODELS if path != "/readyz" else (200 if len(asked) > 3 else 503, {})

    with answering(answer) as url:
        listed = CliRunner().invoke(app, ["models", "--json", "--url", url, "--wait", str(PATIENCE_S)])

    assert (listed.exit_code, asked) == (0, ["/readyz"] * 4 + ["/models"])
    assert listed.stderr.count("Waiting up to") == 1
    assert f"for the service at {url}: it answers with 503" in listed.stderr


def test_a_service_that_nobody_has_started_yet_is_waited_for(free_port: int) -> None:
    tracehouse = Path(sys.executable).with_name("tracehouse")
    arguments = ["models", "--json", "--url", f"http://127.0.0.1:{free_port}", "--wait", str(PATIENCE_S)]
    waiting = subprocess.Popen([tracehouse, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    said = waiting.stderr.readline()
    with answering(lambda method, path, sent: NO_MODELS, free_port):
        listed, _ = waiting.communicate(timeout=PATIENCE_S)

    assert (waiting.returncode, json.loads(listed)) == (0, {"models": []})
    assert "refused" in said


def test_a_service_that_does_not_come_is_named_when_the_time_is_over(free_port: int) -> None:
    refused = CliRunner().invoke(app, ["models", "--url", f"http://127.0.0.1:{free_port}", "--wait", "0.3"])

    assert refused.exit_code == 1
    assert f"No Tracehouse answers at http://127.0.0.1:{free_port}" in refused.stderr


@pytest.mark.parametrize("answer", [(200, [1]), (200, {}), (200, None), (404, ["no"]), (404, {"message": "no"})])
def test_what_answers_and_is_no_service_is_named_without_the_password_of_the_address(answer: tuple[int, Any]) -> None:
    with answering(lambda method, path, sent: answer) as url:
        refused = CliRunner().invoke(app, ["models", "--url", url.replace("://", "://me:secret@")])

    assert (refused.exit_code, type(refused.exception)) == (1, SystemExit)
    assert refused.stderr.startswith(f"{url}: ")
    assert "Tracehouse service" in refused.stderr


@pytest.mark.parametrize("url", ["http://nowhere.invalid", "http://two..dots"])
def test_a_wrong_address_is_not_waited_for(url: str) -> None:
    """An hour: the test would not end."""
    refused = CliRunner().invoke(app, ["models", "--url", url, "--wait", "3600"])

    assert (refused.exit_code, "Waiting" in refused.stderr) == (1, False)
    assert f"No Tracehouse answers at {url}" in refused.stderr


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:{wrapped}", "a port is a number from 1 to 65535"),
        ("127.0.0.1:{wrapped}", "a port is a number from 1 to 65535"),
        ("http://127.0.0.1:0", "a port is a number from 1 to 65535"),
        ("", "it names no host"),
        ("http://:80", "it names no host"),
        ("file:///tmp/net.py", "over http or https, and not over 'file'"),
        ("nonsense://127.0.0.1", "over http or https, and not over 'nonsense'"),
        ("http://127.0.0.1:{port}?x=1", 'has nothing after "?" or "#"'),
        ("http://127.0.0.1:{port}/#models", 'has nothing after "?" or "#"'),
    ],
)
def test_an_address_of_no_service_is_refused_in_a_line_and_not_asked(url: str, said: str) -> None:
    """A socket takes a port modulo 65536, so that another server would be asked."""
    with answering(lambda method, path, sent: NO_MODELS) as there:
        port = int(there.rpartition(":")[2])
        wrong = url.format(port=port, wrapped=port + 65536)
        refused = CliRunner().invoke(app, ["models", "--url", wrong, "--wait", "3600"])

    [line] = refused.stderr.splitlines()
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert line.startswith(f"--url (or TRACEHOUSE_URL) is {wrong!r}, and ")
    assert said in line
    assert line.endswith(": write it as http://HOST:PORT")


def test_a_path_in_the_address_is_named_where_nothing_is_found() -> None:
    missing = {"title": "There is no such model", "code": "model-not-found", "status": 404}
    with answering(lambda method, path, sent: (404, missing)) as url:
        with_path = CliRunner().invoke(app, ["models", "net", "--url", f"{url}/models"])
        without = CliRunner().invoke(app, ["models", "net", "--url", f"{url}/"])

    assert "The address itself has the path /models: leave it out" in with_path.stderr
    assert "The address itself" not in without.stderr


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:80\n00", r"http://host:80\n00"),
        ("http://me:se\ncret@host/\t", r"http://host/\t"),
        ("http://host\x1b[2J", r"http://host\x1b[2J"),
        ("http://host/\udcff", r"http://host/\udcff"),
    ],
)
def test_an_address_is_shown_with_control_characters_escaped(url: str, shown: str) -> None:
    given = CliRunner().invoke(app, ["models", "--url", url])
    set_outside = CliRunner().invoke(app, ["models"], env={"TRACEHOUSE_URL": url})

    for refused in (given, set_outside):
        first, *others = refused.stderr.split("\n")
        assert (refused.exit_code, len(others)) == (1, 3), refused.exception
        assert first.startswith(f"No Tracehouse answers at {shown} (")
        assert first.isprintable()


def test_an_address_of_something_else_is_shown_in_the_same_way() -> None:
    with answering(lambda method, path, sent: (404, ["no"])) as url:
        refused = CliRunner().invoke(app, ["models", "--url", f"{url}/\u202e"])

    assert (refused.exit_code, refused.stderr.startswith(rf"{url}/\u202e: it answers with 404")) == (1, True)


def test_what_answers_and_is_no_service_is_not_waited_for() -> None:
    with answering(lambda method, path, sent: (404, {"title": "No", "code": "not-found"})) as url:
        refused = CliRunner().invoke(app, ["models", "--url", url, "--wait", "3600"])

    assert (refused.exit_code, "Waiting" in refused.stderr) == (1, False)


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("import torch\n\n\nclass Net(torch.nn.Linear):\n    pass\n")
    return tmp_path


def large_weights(folder: Path, byte_size: int) -> None:
    with (folder / "weights.safetensors").open("wb") as file:
        file.truncate(byte_size)


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def strict(asked: list[str]) -> Iterator[str]:
    def answer(method: str, path: str, sent: Any) -> tuple[int, Any]:
        asked.append(path)
        if path == "/limits":
            return 200, {"request_max_bytes": 10**6, "upload_max_bytes": 2 * 10**6, "files_max": 9}
        return 413, {"title": "It is too large", "code": "payload-too-large", "detail": "no"}

    with answering(answer) as url:
        yield url


WITH_WEIGHTS = ["trace", "net.py:Net", "--input", "1x2", "--weights", "weights.safetensors"]


def test_what_is_too_large_is_not_sent(net: Path, strict: str, asked: list[str]) -> None:
    large_weights(net, 3 * 10**6)
    refused = CliRunner().invoke(app, [*WITH_WEIGHTS, "--url", strict])

    assert (refused.exit_code, asked) == (2, ["/limits"])
    assert "weights.safetensors 3,000,000" in refused.stderr
    assert "the service takes 2,000,000: send less" in refused.stderr


def test_what_fits_and_what_is_small_is_sent(net: Path, strict: str, asked: list[str]) -> None:
    for byte_size in (15 * 10**5, 10**5):
        large_weights(net, byte_size)
        CliRunner().invoke(app, [*WITH_WEIGHTS, "--url", strict])

    assert asked == ["/limits", "/trace", "/trace"]


def test_an_earlier_release_that_tells_no_limits_refuses_by_itself(net: Path, asked: list[str]) -> None:
    def answer(method: str, path: str, sent: Any) -> tuple[int, Any]:
        asked.append(path)
        return 413 if path == "/trace" else 404, {"title": "No", "code": "payload-too-large", "detail": "no"}

    large_weights(net, 3 * 10**6)
    with answering(answer) as url:
        refused = CliRunner().invoke(app, [*WITH_WEIGHTS, "--url", url])

    assert (refused.exit_code, asked) == (1, ["/limits", "/trace"])
    assert "payload-too-large" in refused.stderr


@pytest.mark.parametrize(
    "command", [["models", "net"], ["traces"], ["download", "net", "net.pt"], ["diff", "net", "net"]]
)
def test_an_answer_that_lacks_what_this_release_needs_is_told_in_one_line(command: list[str]) -> None:
    lacking = {"name": "net", "default_version": 1, "versions": [{"version": 1}], "trace_requests": [{"id": "1"}]}
    with answering(lambda method, path, sent: (200, {**lacking, "next_cursor": None})) as url:
        ended = CliRunner().invoke(app, [*command, "--url", url])

    assert (ended.exit_code, ended.stdout) == (1, ""), ended.exception
    assert ended.stderr.startswith(f"{url}: the answer has no '")


def test_a_problem_of_another_service_is_told() -> None:
    other = {"title": "Not Found", "status": 404, "errors": [{"message": "no such route"}]}
    with answering(lambda method, path, sent: (404, other)) as url:
        ended = CliRunner().invoke(app, ["models", "net", "--url", url])

    assert isinstance(ended.exception, SystemExit), ended.exception
    assert (ended.exit_code, ended.stderr.startswith("Not Found")) == (1, True)


def test_an_answer_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "GRACE_S", 1e-9)
    monkeypatch.setattr(pace, "BYTES_PER_S_MIN", 10**12)
    with answering(lambda method, path, sent: NO_MODELS) as url:
        ended = CliRunner().invoke(app, ["models", "--url", url])

    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"No Tracehouse answers at {url} (its answer comes too slowly: ")
