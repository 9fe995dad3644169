"""What `tracehouse trace` says at the end: the verdict's sentence, and an exit code for scripts."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.cli.trace import exit_code_of
from service.cli.trace_report import verdict_sentences
from tests.service.cli.answers import answering

CUT = "verified, but the check is incomplete: not checked to the end, of forward: which sizes may vary"


@pytest.mark.parametrize(
    ("verdict", "version", "outputs", "code"),
    [
        ("verified", 1, None, 0),
        ("self-consistent", 1, None, 0),
        ("restricted", 1, None, 4),
        ("rejected", None, None, 3),
        ("rejected", 1, None, 0),
        (None, None, "/trace/1/outputs", 0),
    ],
    ids=["verified", "self-consistent", "restricted", "rejected", "accepted as it is", "eager"],
)
def test_each_end_has_its_exit_code(verdict: str | None, version: int | None, outputs: str | None, code: int) -> None:
    ended = {"verdict": verdict, "model": version and {"version": version}, "links": {"outputs": outputs}}

    assert exit_code_of(ended) == code


def test_the_verdict_is_the_sentence_of_the_artifact() -> None:
    assert verdict_sentences("verified", [{"device": "cpu", "bucket": {}, "verdict_sentence": CUT}]) == [CUT]


def test_artifacts_that_differ_have_a_line_each() -> None:
    cpu = {"device": "cpu", "bucket": {"seq": 16}, "verdict_sentence": CUT}
    cuda = {"device": "cuda", "bucket": {}, "verdict_sentence": "verified"}

    assert verdict_sentences("verified", [cpu, cuda]) == ["verified", f"cpu, seq 16: {CUT}", "cuda: verified"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_service_that_stops_keeps_the_request_and_nothing_else_is_said(tmp_path: Path, options: list[str]) -> None:
    """Its stream of events ends before the request does. What answers then may be a service that was started again."""
    (tmp_path / "net.py").write_text("def net(x):\n    return x\n")

    def answer(method: str, path: str, sent: Any) -> tuple[int, Any]:
        return (200, None) if path.endswith("/events") else (200, {"id": "0" * 32, "state": "running", "problem": None})

    with answering(answer) as url:
        arguments = ["trace", f"{tmp_path}/net.py:net", "--input", "1x2", "--url", url, *options]
        ended = CliRunner().invoke(app, arguments)

    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.splitlines() == [
        f"The service went away; it keeps trace request {'0' * 32}, and goes on with it when it is back."
    ]


def test_a_number_that_json_cannot_carry_is_refused_in_a_line() -> None:
    huge = ["trace", "torch.nn:Linear", "--input", "1x2", "--sizes", f"n=1..{2**64}"]
    with answering(lambda method, path, sent: (500, None)) as url:
        refused = CliRunner().invoke(app, [*huge, "--url", url])

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("sizes cannot be sent (Integer exceeds 64-bit range)")
