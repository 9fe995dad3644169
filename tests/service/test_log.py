"""The log's lines."""

import json
import logging
from datetime import UTC, datetime

import pytest

from service import log


def test_a_line_says_when_in_utc(capsys: pytest.CaptureFixture[str]) -> None:
    before = logging.root.handlers[:], logging.root.level
    try:
        log.configure("INFO")
        logging.getLogger("here").info("said", extra={"seconds": 1})
    finally:
        logging.root.handlers[:], logging.root.level = before

    line = json.loads(capsys.readouterr().err)
    assert (line["message"], line["logger"], line["level"], line["seconds"]) == ("said", "here", "INFO", 1)
    at = datetime.fromisoformat(line["at"])
    assert at.tzinfo == UTC
    assert abs((datetime.now(UTC) - at).total_seconds()) < 3600
