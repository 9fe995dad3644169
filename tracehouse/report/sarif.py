"""SARIF 2.1.0: findings as code hosts take them, to annotate the lines of a pull request.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Weight, entry_of
from tracehouse.findings.verdict import Verdict
from tracehouse.report.failure_text import failure_remedy, failure_title
from tracehouse.report.finding_text import worth_reading
from tracehouse.report.report_source import weight_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# Code hosts resolve paths against the root of the repository, under this name by custom.
_ROOT = "%SRCROOT%"
_FINGERPRINT = "tracehouseFinding/v1"


@dataclass(frozen=True)
class SourcePlaces:
    """Where the files of a source are in the repository: paths from its root, with slashes.

    `anchor` is the file that stands for a finding without a line of the source. Where there is none either, the finding
    is a notification of the run: GitHub refuses a whole document for one result without a file.
    """

    paths: Mapping[str, str]
    anchor: str | None = None


def render_findings(verdict: Verdict, findings: Sequence[Finding], places: SourcePlaces, version: str) -> bytes:
    """Return the SARIF document of a check that came to a verdict."""
    annotations = [_Annotation.of_finding(one, verdict) for one in worth_reading(findings)]
    return _document(annotations, places, version, {"verdict": verdict.value})


def render_failure(failure: Failure, places: SourcePlaces, version: str) -> bytes:
    """Return the SARIF document of a check that could not trace the model."""
    return _document([_Annotation.of_failure(failure)], places, version, {"verdict": None})


@dataclass(frozen=True)
class _Annotation:
    """What is said of a line: the rule, how grave it is, the message, and the line as the source has it."""

    rule: dict[str, Any]
    level: str
    message: str
    file: str | None
    line: int | None
    source: str | None

    @classmethod
    def of_finding(cls, finding: Finding, verdict: Verdict) -> "_Annotation":
        remedy = f"\nRemedy: {finding.remedy}" if finding.remedy else ""
        return cls(
            rule=_rule_of_kind(finding.kind),
            level=_level(finding, verdict),
            message=f"{finding.detail}{remedy}",
            file=finding.file,
            line=finding.line,
            source=finding.source,
        )

    @classmethod
    def of_failure(cls, failure: Failure) -> "_Annotation":
        title, remedy = failure_title(failure), failure_remedy(failure)
        file, line, source = (failure.facts.get(name) for name in ("file", "line", "source"))
        return cls(
            rule={"id": failure.slug, "shortDescription": {"text": title}},
            level="error",
            message=f"{title}: {failure.detail}" + (f"\nRemedy: {remedy}" if remedy else ""),
            file=file if isinstance(file, str) else None,
            line=line if isinstance(line, int) else None,
            source=source if isinstance(source, str) else None,
        )


def _rule_of_kind(kind: str) -> dict[str, Any]:
    entry = entry_of(kind)
    if entry is None:
        return {"id": kind, "shortDescription": {"text": kind}}
    return {
        "id": kind,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.meaning},
        "help": {"text": entry.remedy, "markdown": f"{entry.meaning}\n\n**What to write instead:** {entry.remedy}"},
        "properties": {"tags": ["correctness"], "weight": entry.weight.value},
    }


def _level(finding: Finding, verdict: Verdict) -> str:
    """Return `error` only if the artifact is rejected: what restricts it is enforced by its contract."""
    if weight_of(finding) in ("harmful", "unknown"):
        return "error" if verdict is Verdict.REJECTED else "warning"
    entry = entry_of(finding.kind)
    return "warning" if entry is not None and entry.weight is Weight.LIMITS else "note"


def _result(annotation: _Annotation, places: SourcePlaces) -> dict[str, Any]:
    """Return the result, without its rule's index. It has no location if there is no file for it."""
    path = places.paths.get(annotation.file or "")
    line = annotation.line if path is not None and (annotation.line or 0) > 0 else None
    message = annotation.message
    if path is None and annotation.file:  # a file of a library, or one that was uploaded beside the source
        where = f"{annotation.file}:{annotation.line}" if annotation.line else annotation.file
        message = f"{where}: {message}"
    key = "\0".join([annotation.rule["id"], path or annotation.file or "", annotation.source or ""])
    return {
        "ruleId": annotation.rule["id"],
        "level": annotation.level,
        "message": {"text": message},
        "partialFingerprints": {_FINGERPRINT: hashlib.sha256(key.encode()).hexdigest()},
        "locations": [*_locations(path or places.anchor, line, annotation.source)],
    }


def _locations(path: str | None, line: int | None, source: str | None) -> Iterator[dict[str, Any]]:
    if path is None:
        return
    region = {"startLine": line or 1, **({"snippet": {"text": source}} if line and source else {})}
    place = {"artifactLocation": {"uri": quote(path), "uriBaseId": _ROOT}, "region": region}
    yield {"physicalLocation": place}


def _document(
    annotations: Sequence[_Annotation], places: SourcePlaces, version: str, properties: dict[str, Any]
) -> bytes:
    rules = {one.rule["id"]: one.rule for one in annotations}
    numbers = {name: number for number, name in enumerate(rules)}
    results = [_result(one, places) for one in annotations]
    notifications = [_notification(one) for one in results if not one["locations"]]
    run = {
        "tool": {"driver": {"name": "Tracehouse", "version": version, "rules": [*rules.values()]}},
        "columnKind": "unicodeCodePoints",
        "results": [{**one, "ruleIndex": numbers[one["ruleId"]]} for one in results if one["locations"]],
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
        "properties": properties,
    }
    return orjson.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, option=orjson.OPT_INDENT_2) + b"\n"


def _notification(result: Mapping[str, Any]) -> dict[str, Any]:
    return {"associatedRule": {"id": result["ruleId"]}, "level": result["level"], "message": result["message"]}
