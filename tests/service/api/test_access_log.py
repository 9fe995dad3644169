"""Each exchange has an id, which its reply and its line in the log share."""

import logging
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api import health
from service.api.app import create_app
from service.api.context import AppContext
from service.domain.api_key import Scope
from tests.conftest import PATIENCE_S, NewStore
from tests.service.api.conftest import authorized, running, serving


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="service.api.http.access_log")
    return caplog


def test_a_callers_id_is_kept(steady: TestClient) -> None:
    assert steady.get("/livez", headers={"x-request-id": "A-1._"}).headers["x-request-id"] == "A-1._"


@pytest.mark.parametrize("given", ["", "two words", "x" * 129, "a\tb", "<b>", "caf\u00e9"])
def test_an_id_that_could_do_harm_is_replaced(steady: TestClient, given: str) -> None:
    answer = steady.get("/livez", headers={"x-request-id": given.encode("latin-1")})  # type: ignore[dict-item]

    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])


def test_an_exchange_is_one_line(steady: TestClient, lines: pytest.LogCaptureFixture) -> None:
    steady.get("/models/nope?secret=1")

    [record] = [record for record in lines.records if record.name == "service.api.http.access_log"]
    said = {name: getattr(record, name) for name in ("method", "path", "status")}
    assert said == {"method": "GET", "path": "/models/nope", "status": 404}
    assert 0 < record.seconds < 10  # type: ignore[attr-defined]


def test_a_probe_is_a_line_only_where_it_fails_or_everything_is_logged(
    steady: TestClient, lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the log of a service that nobody asks would be nothing but probes."""
    for path in ("/livez", "/readyz", "/v2/health/ready", "/metrics", "/findings"):
        assert steady.get(path).status_code == 200
    monkeypatch.setattr(health, "DISK_MIN_BYTES", 2**62)
    assert steady.get("/readyz").status_code == 503
    lines.set_level(logging.DEBUG, logger="service.api.http.access_log")
    assert steady.get("/livez").status_code == 200

    said = [
        (record.path, record.status)  # type: ignore[attr-defined]
        for record in lines.records
        if record.name == "service.api.http.access_log"
    ]
    assert said == [("/findings", 200), ("/readyz", 503), ("/livez", 200)]


def test_who_had_a_key_is_named_and_the_secret_is_not(
    new_store: NewStore, tmp_path: Path, lines: pytest.LogCaptureFixture
) -> None:
    with running(new_store, tmp_path, keys_required=True) as (client, store):
        headers = authorized(store, Scope.READ, tenant="mine")
        wrong = {"authorization": headers["authorization"][:-1] + "-"}
        [key] = store.api_keys.list()
        lines.clear()
        for each in (headers, wrong, {}):
            client.get("/models/nope", headers=each)
        client.post("/infer/nope", headers=headers)

    named = [
        (record.status, record.__dict__.get("key"), record.__dict__.get("tenant"))  # type: ignore[attr-defined]
        for record in lines.records
        if record.name == "service.api.http.access_log"
    ]
    assert named == [(404, key.prefix, "mine"), (401, None, None), (401, None, None), (403, key.prefix, "mine")]
    secret = headers["authorization"].rpartition("_")[2]
    assert not any(secret in str(record.__dict__) for record in lines.records)


def test_no_reply_is_guessed_at_by_a_browser(steady: TestClient) -> None:
    for path in ("/livez", "/docs", "/nope", "/docs/assets/swagger-ui.css"):
        assert steady.get(path).headers["x-content-type-options"] == "nosniff"


def test_after_an_internal_error_the_next_request_on_the_connection_is_answered(
    context: AppContext, monkeypatch: pytest.MonkeyPatch, lines: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(context.store.trace_requests, "list", fail)
    with serving(create_app(context)) as address, socket.create_connection(address, PATIENCE_S) as connection:
        connection.sendall(
            b"GET /trace HTTP/1.1\r\nHost: localhost\r\n\r\n"
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        answers = b"".join(iter(lambda: connection.recv(65536), b""))

    assert answers.startswith(b"HTTP/1.1 500 ")
    assert answers.count(b"HTTP/1.1 200 ") == 1
    assert "a mistake" in lines.text
