"""`tracehouse models` and `promote`, against a service that answers what a test says."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from tests.service.cli.answers import answering

MODELS: dict[str, Any] = {
    "models": [
        {
            "name": "net", "default_version": 1, "bitwise": False, "aliases": [],
            "versions": [{"version": 1, "verdict": "verified"}],
        },
        {
            "name": "new", "default_version": None, "bitwise": True, "aliases": [],
            "versions": [{"version": 4, "verdict": "restricted"}],
        },
    ],
    "next_cursor": None,
}  # fmt: skip


@pytest.fixture
def asked() -> list[Any]:
    return []


@pytest.fixture
def url(asked: list[Any]) -> Iterator[str]:
    def answer(method: str, path: str, sent: Any) -> tuple[int, Any]:
        if method == "POST":
            asked.append((path, sent))
            return 200, {"name": "net", "default_version": sent["version"], "previous_version": 2}
        if method == "PATCH":
            asked.append((path, sent))
            return 200, MODELS["models"][0] | sent
        if method == "PUT":
            asked.append((path, sent))
            return 200, {"alias": "prod", "version": sent["version"]}
        if path.endswith("/aliases/prod"):
            return 404, {"title": "There is no such alias", "code": "alias-not-found"}
        [*found] = (one for one in MODELS["models"] if path == f"/models/{one['name']}")
        return 200, found[0] if found else MODELS

    with answering(answer) as address:
        yield address


def test_the_models_are_listed_with_the_version_that_answers(url: str) -> None:
    listed = CliRunner().invoke(app, ["models", "--url", url])

    assert listed.stdout == "net: 1 verified  default → 1\nnew: 4 restricted  default → none  served bitwise\n"


def test_one_model_is_listed_alone_in_the_same_way(url: str) -> None:
    text, document = (
        CliRunner().invoke(app, ["models", "net", "--url", url, *options]) for options in ([], ["--json"])
    )

    assert text.stdout == "net: 1 verified  default → 1\n"
    assert json.loads(document.stdout) == {"models": [MODELS["models"][0]]}


@pytest.mark.parametrize(("option", "bitwise"), [("--bitwise", True), ("--no-bitwise", False)])
def test_a_model_is_served_bitwise_from_now_on_or_no_longer(
    url: str, asked: list[Any], option: str, bitwise: bool
) -> None:
    changed = CliRunner().invoke(app, ["models", "net", option, "--url", url])

    assert asked == [("/models/net", {"bitwise": bitwise})]
    assert changed.stdout.endswith("served bitwise\n") is bitwise


@pytest.mark.parametrize(
    ("options", "sent", "said"),
    [
        (["--idle-s", "600"], {"idle_s": 600.0}, "  ends after 600 s without a request\n"),
        (["--idle-s", "0"], {"idle_s": 0.0}, "  never ends for idleness\n"),
        (["--idle-s", "service"], {"idle_s": None}, "  default → 1\n"),
        (["--pin"], {"pinned": True}, "  pinned\n"),
        (["--no-pin"], {"pinned": False}, "  default → 1\n"),
        (["--threads", "4"], {"threads": 4}, "  computes with 4 threads\n"),
        (["--threads", "1"], {"threads": 1}, "  computes with 1 thread\n"),
        (["--threads", "service"], {"threads": None}, "  default → 1\n"),
        (["--replicas", "3"], {"replicas": 3}, "  answered by up to 3 processes\n"),
        (["--replicas", "1"], {"replicas": 1}, "  answered by 1 process\n"),
        (["--replicas", "service"], {"replicas": None}, "  default → 1\n"),
        (["--idle-s", "0.5", "--bitwise"], {"bitwise": True, "idle_s": 0.5}, "  served bitwise  ends after 0.5 s"),
    ],
)
def test_how_a_model_is_served_is_changed_and_said(
    url: str, asked: list[Any], options: list[str], sent: Any, said: str
) -> None:
    changed = CliRunner().invoke(app, ["models", "net", *options, "--url", url])

    assert asked == [("/models/net", sent)]
    assert said in changed.stdout


@pytest.mark.parametrize("seconds", ["-1", "soon", "inf", "nan", ""])
def test_what_is_no_time_is_refused(url: str, asked: list[Any], seconds: str) -> None:
    refused = CliRunner().invoke(app, ["models", "net", "--idle-s", seconds, "--url", url])

    assert (refused.exit_code, asked) == (2, [])
    assert "write a number of seconds" in refused.stderr


@pytest.mark.parametrize("threads", ["0", "-1", "1025", "1.5", "all", "²", ""])
def test_what_is_no_number_of_threads_is_refused(url: str, asked: list[Any], threads: str) -> None:
    refused = CliRunner().invoke(app, ["models", "net", "--threads", threads, "--url", url])

    assert (refused.exit_code, asked) == (2, [])
    assert "write a number of threads" in refused.stderr


@pytest.mark.parametrize("replicas", ["0", "-1", "1025", "1.5", "all", "²", ""])
def test_what_is_no_number_of_processes_is_refused(url: str, asked: list[Any], replicas: str) -> None:
    refused = CliRunner().invoke(app, ["models", "net", "--replicas", replicas, "--url", url])

    assert (refused.exit_code, asked) == (2, [])
    assert "write a number of processes" in refused.stderr


@pytest.mark.parametrize(
    "options", [["--bitwise"], ["--idle-s", "600"], ["--pin"], ["--threads", "4"], ["--replicas", "2"]]
)
def test_all_models_at_once_are_not_changed(url: str, asked: list[Any], options: list[str]) -> None:
    refused = CliRunner().invoke(app, ["models", *options, "--url", url])

    assert (refused.exit_code, asked) == (2, [])
    assert f"name the model: tracehouse models MODEL {options[0]}" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [("models", "a/b"), ("alias", "net:1", "a/b"), ("environments", "create", "a/b", "-r", __file__)],
    ids=lambda arguments: arguments[0],
)
def test_no_command_takes_a_name_that_the_service_refuses(arguments: tuple[str, ...]) -> None:
    refused = CliRunner().invoke(app, arguments)

    assert refused.exit_code == 2
    assert "1 to 64 letters, digits, '.', '_' or '-', with a letter or digit at both ends" in refused.stderr


@pytest.mark.parametrize("model", ["net?x=1", "net/versions", "net#1", "../models/net", "net@", "net:one"])
def test_no_name_makes_another_address_of_a_call(url: str, asked: list[Any], model: str) -> None:
    refused = CliRunner().invoke(app, ["infer", model, "{}", "--url", url])

    assert (refused.exit_code, asked) == (2, [])
    assert f"'{model}' names no version: write model, model@alias or model:version" in refused.stderr


def test_a_service_without_models_says_how_to_make_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "models", [])
    listed = CliRunner().invoke(app, ["models", "--url", url])

    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "tracehouse trace" in listed.stderr


def test_a_version_is_promoted(url: str, asked: list[Any]) -> None:
    promoted = CliRunner().invoke(app, ["promote", "net:1", "--url", url])

    assert promoted.stdout == "net: version 1 answers now; before, version 2 did.\n"
    assert asked == [("/models/net/promote", {"version": 1})]


@pytest.mark.parametrize(
    ("command", "path"),
    [(["promote", "net:1"], "/models/net/promote"), (["alias", "net:1", "prod"], "/models/net/aliases/prod")],
)
def test_a_version_moves_back_after_so_many_wrong_answers(
    url: str, asked: list[Any], command: list[str], path: str
) -> None:
    moved = CliRunner().invoke(app, [*command, "--move-back-after", "3", "--url", url])

    assert asked == [(path, {"version": 1, "move_back_after": 3})]
    assert moved.stdout.endswith("\nThe version before answers again after 3 wrong answers.\n")


def test_a_version_that_a_model_lacks_is_not_promoted(url: str, asked: list[Any]) -> None:
    refused = CliRunner().invoke(app, ["promote", "net:3", "--url", url])

    assert (refused.exit_code, asked) == (2, [])
    assert "model net has no version 3" in refused.stderr
