"""`tracehouse models` and `promote`, against a service that answers what a test says."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from tests.service.cli.answers import answering

MODELS: dict[str, Any] = {
    "models": [
        {"name": "net", "default_version": 1, "versions": [{"version": 1, "verdict": "verified"}], "aliases": []},
        {"name": "new", "default_version": None, "versions": [{"version": 4, "verdict": "restricted"}], "aliases": []},
    ],
    "next_cursor": None,
}


@pytest.fixture
def asked() -> list[Any]:
    return []


@pytest.fixture
def url(asked: list[Any]) -> Iterator[str]:
    def answer(method: str, path: str, sent: Any) -> tuple[int, Any]:
        if method == "POST":
            asked.append((path, sent))
            return 200, {"name": "net", "default_version": sent["version"], "previous_version": 2}
        [*found] = (one for one in MODELS["models"] if path == f"/models/{one['name']}")
        return 200, found[0] if found else MODELS

    with answering(answer) as address:
        yield address


def test_the_models_are_listed_with_the_version_that_answers(url: str) -> None:
    listed = CliRunner().invoke(app, ["models", "--url", url])

    assert listed.stdout == "net: 1 verified  default → 1\nnew: 4 restricted  default → none\n"


def test_a_service_without_models_says_how_to_make_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "models", [])
    listed = CliRunner().invoke(app, ["models", "--url", url])

    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "tracehouse trace" in listed.stderr


def test_a_version_is_promoted(url: str, asked: list[Any]) -> None:
    promoted = CliRunner().invoke(app, ["promote", "net:1", "--url", url])

    assert promoted.stdout == "net: version 1 answers now; before, version 2 did.\n"
    assert asked == [("/models/net/promote", {"version": 1})]


def test_a_version_that_a_model_lacks_is_not_promoted(url: str, asked: list[Any]) -> None:
    refused = CliRunner().invoke(app, ["promote", "net:3", "--url", url])

    assert (refused.exit_code, asked) == (2, [])
    assert "model net has no version 3" in refused.stderr
