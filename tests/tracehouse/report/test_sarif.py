"""SARIF of a check: what a code host shows beside which line, and how grave it is."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict
from tracehouse.report import sarif
from tracehouse.report.sarif import SourcePlaces

ESSENTIALS = json.loads(Path(__file__).with_name("sarif_essentials.json").read_text())
PLACES = SourcePlaces({"net.py": "models/my net.py", "pkg/part.py": "models/pkg/part.py"}, "models/my net.py")
BAKED = Finding(
    kind="baked-value",
    detail="the trace keeps it",
    file="net.py",
    line=7,
    source="if x.sum() > 0:",
    effect="harmful",
    remedy="write torch.where",
)
UNSENT = Finding(kind="weights-not-sent", detail="no weights were sent")


def parse(document: bytes) -> Any:
    """Return the run of a document that meets the schema's demands."""
    parsed = json.loads(document)
    jsonschema_rs.validate(ESSENTIALS, parsed, validate_formats=True)
    [run] = parsed["runs"]
    return run


def render(*findings: Finding, verdict: Verdict = Verdict.REJECTED, places: SourcePlaces = PLACES) -> Any:
    return parse(sarif.render_findings(verdict, findings, places, "1.0"))


def place_of(result: Any) -> tuple[str, int]:
    place = result["locations"][0]["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"]


def test_a_finding_stands_at_its_line_with_its_remedy() -> None:
    [result] = render(BAKED)["results"]

    assert place_of(result) == ("models/my%20net.py", 7)
    assert result["message"]["text"] == "the trace keeps it\nRemedy: write torch.where"
    assert result["locations"][0]["physicalLocation"]["region"]["snippet"] == {"text": "if x.sum() > 0:"}


def test_its_rule_is_the_entry_of_the_catalogue() -> None:
    run = render(BAKED, UNSENT)
    rules = run["tool"]["driver"]["rules"]

    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == ["baked-value", "weights-not-sent"]
    assert rules[0]["shortDescription"]["text"] == "The trace keeps a value that Python read out of a tensor"
    assert "torch.where" in rules[0]["help"]["text"]


@pytest.mark.parametrize(
    ("finding", "verdict", "level"),
    [
        (BAKED, Verdict.REJECTED, "error"),
        (BAKED, Verdict.RESTRICTED, "warning"),
        (Finding(kind="output-differs", detail=""), Verdict.REJECTED, "error"),
        (Finding(kind="no-eager-model", detail=""), Verdict.SELF_CONSISTENT, "warning"),
        (UNSENT, Verdict.VERIFIED, "note"),
        (Finding(kind="of-another-release", detail=""), Verdict.VERIFIED, "note"),
    ],
)
def test_a_finding_is_as_grave_as_its_weight_in_the_verdict(finding: Finding, verdict: Verdict, level: str) -> None:
    [result] = render(finding, verdict=verdict)["results"]

    assert result["level"] == level


def test_what_is_harmless_or_said_twice_is_left_out() -> None:
    harmless = BAKED.model_copy(update={"line": 9, "effect": "harmless"})
    warned = Finding(kind="tracer-warning", detail="Converting a tensor", file="net.py", line=7, effect="harmful")

    assert [result["ruleId"] for result in render(warned, BAKED, harmless)["results"]] == ["baked-value"]


def test_a_finding_without_a_line_of_the_source_stands_at_the_entrypoint() -> None:
    library = Finding(kind="baked-value", detail="a size", file="timm/layers/pos.py", line=30, effect="harmful")
    unsent, in_library = render(UNSENT, library)["results"]

    assert place_of(unsent) == place_of(in_library) == ("models/my%20net.py", 1)
    assert in_library["message"]["text"] == "timm/layers/pos.py:30: a size"


def test_where_no_file_is_in_the_repository_findings_are_notifications() -> None:
    """GitHub refuses a whole document for one result without a location."""
    run = render(UNSENT, places=SourcePlaces({}))

    assert run["results"] == []
    [notification] = run["invocations"][0]["toolExecutionNotifications"]
    assert (notification["associatedRule"]["id"], notification["level"]) == ("weights-not-sent", "note")


def test_a_finding_is_recognised_though_lines_before_it_come_and_go() -> None:
    moved = BAKED.model_copy(update={"line": 70, "detail": "other numbers"})
    other = BAKED.model_copy(update={"source": "if x.max() > 0:"})
    prints = [render(one)["results"][0]["partialFingerprints"] for one in (BAKED, moved, other)]

    assert prints[0] == prints[1] != prints[2]


def test_a_model_that_cannot_be_traced_is_an_error_at_its_line() -> None:
    facts: dict[str, Any] = {"file": "pkg/part.py", "line": 3, "source": "x @ x", "remedy": "turn it"}
    run = parse(sarif.render_failure(Failure(slug="model-raised", detail="shapes", facts=facts), PLACES, "1.0"))

    [result] = run["results"]
    assert (place_of(result), result["level"]) == (("models/pkg/part.py", 3), "error")
    assert result["message"]["text"].endswith(": shapes\nRemedy: turn it")


def test_a_failure_without_a_line_says_what_to_do() -> None:
    run = parse(sarif.render_failure(Failure(slug="entrypoint-not-found", detail="no Net"), PLACES, "1.0"))

    [result] = run["results"]
    assert place_of(result) == ("models/my%20net.py", 1)
    assert "Remedy: Write `module:name`" in result["message"]["text"]


@pytest.mark.parametrize(
    ("file", "place", "named"),
    [("pkg/part.py", ("models/pkg/part.py", 1), ""), ("weights.pt", ("models/my%20net.py", 1), "weights.pt: ")],
)
def test_a_file_without_a_line_is_where_the_failure_stands_or_is_named(
    file: str, place: tuple[str, int], named: str
) -> None:
    failure = Failure(slug="of-another-release", detail="broken", facts={"file": file})
    [result] = parse(sarif.render_failure(failure, PLACES, "1.0"))["results"]

    assert place_of(result) == place
    assert result["message"]["text"] == f"{named}of-another-release: broken"


def test_no_finding_makes_a_document_too() -> None:
    run = render(verdict=Verdict.VERIFIED)

    assert (run["results"], run["properties"]) == ([], {"verdict": "verified"})
