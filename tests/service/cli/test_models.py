"""`tracehouse models`, against a service that answers what a test says."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app

MODELS = {
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
    class Answer(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_GET(self) -> None:
            self._answer(MODELS)

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, sent))
            self._answer({"name": "net", "default_version": sent["version"], "previous_version": 2})

        def _answer(self, reply: Any) -> None:
            body = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_models_are_listed_with_the_version_that_answers(url: str) -> None:
    listed = CliRunner().invoke(app, ["models", "--url", url])

    assert listed.stdout == "net: 1 verified  default → 1\nnew: 4 restricted  default → none\n"


def test_a_service_without_models_says_how_to_make_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "models", [])
    listed = CliRunner().invoke(app, ["models", "--url", url])

    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "tracehouse trace" in listed.stderr


def test_a_version_is_promoted(url: str, asked: list[Any]) -> None:
    promoted = CliRunner().invoke(app, ["models", "promote", "net", "3", "--url", url])

    assert promoted.stdout == "net: version 3 answers now; before, version 2 did.\n"
    assert asked == [("/models/net/promote", {"version": 3})]


def test_a_promotion_does_not_lose_the_service_that_it_is_for(url: str, asked: list[Any]) -> None:
    refused = CliRunner().invoke(app, ["models", "--url", url, "promote", "net", "3"])

    assert (refused.exit_code, asked) == (2, [])
    assert "give --url after promote" in refused.stderr
