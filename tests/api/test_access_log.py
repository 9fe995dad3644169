"""Each exchange has an id, which its reply and its line in the log share."""

import logging
import re

import pytest
from fastapi.testclient import TestClient


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="service.api.access_log")
    return caplog


def test_a_callers_id_is_kept(steady: TestClient) -> None:
    assert steady.get("/livez", headers={"x-request-id": "A-1._"}).headers["x-request-id"] == "A-1._"


@pytest.mark.parametrize("given", ["", "two words", "x" * 129, "a\tb", "<b>", "caf\u00e9"])
def test_an_id_that_could_do_harm_is_replaced(steady: TestClient, given: str) -> None:
    answer = steady.get("/livez", headers={"x-request-id": given.encode("latin-1")})  # type: ignore[dict-item]

    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])


def test_an_exchange_is_one_line(steady: TestClient, lines: pytest.LogCaptureFixture) -> None:
    steady.get("/models/nope?secret=1")

    [record] = [record for record in lines.records if record.name == "service.api.access_log"]
    said = {name: getattr(record, name) for name in ("method", "path", "status")}
    assert said == {"method": "GET", "path": "/models/nope", "status": 404}
    assert 0 < record.seconds < 10  # type: ignore[attr-defined]


def test_no_reply_is_guessed_at_by_a_browser(steady: TestClient) -> None:
    for path in ("/livez", "/docs", "/nope", "/docs/assets/swagger-ui.css"):
        assert steady.get(path).headers["x-content-type-options"] == "nosniff"
