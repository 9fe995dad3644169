"""`tracehouse diff`, against a service of another release."""

from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from tests.service.cli.answers import answering

MODEL = {
    "name": "net", "default_version": 1, "aliases": [],
    "versions": [{"version": 1, "verdict": "verified", "artifacts": {"cpu": "sha256:0"}, "buckets": []}],
}  # fmt: skip
ARTIFACT = {"digest": "sha256:0", "device": "cpu", "bucket": {}, "versions": {"tracehouse": "9.1"}}


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"contract": {"methods": {}, "made_of": "news"}, "check": {"findings": []}}, "contracts"),
        ({"contract": {"methods": {}}, "check": {"findings": [{"sort": "news"}]}}, "findings"),
    ],
)
def test_a_service_of_another_release_is_named_with_what_to_do(members: dict[str, Any], what: str) -> None:
    def answer(method: str, path: str, sent: Any) -> tuple[int, Any]:
        return 200, MODEL if path.startswith("/models") else ARTIFACT | members

    with answering(answer) as url:
        refused = CliRunner().invoke(app, ["diff", "net:1", "net:1", "--url", url])

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"Tracehouse 9.1) writes {what} that this client" in refused.stderr
    assert "install the same release" in refused.stderr
