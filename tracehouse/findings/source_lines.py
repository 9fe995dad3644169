"""The source line of a finding: its fields `file`, `line` and `source`, or none of them if no line is known."""

from collections.abc import Mapping, Sequence
from typing import Any

from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import BAKED, Kind

SourceLine = Mapping[str, Any]
UNKNOWN_LINE: SourceLine = {}

# How it is known that a line is at fault. A finding has one of these as `line_known_by` in its evidence.
VALUE_CHANGED = "changing this value changed the graph"
INPUTS_CHANGED = "inputs that change this value get another answer"
GRAPHS_DIFFER = "the graphs first differ here"
ARTIFACT_RAISED = "the artifact raised here"
STATE_READ = "this line reads what a call changed"
LAYOUT_CHANGED = "this line gets another answer for the other layout"

_FIELDS = {"file": str, "line": int, "source": str}


def line_of_failure(failure: Failure) -> SourceLine:
    """Return the line in a failure's facts. A child may have invented them, so a field of a wrong type is left out."""
    return {name: failure.facts[name] for name, kind in _FIELDS.items() if isinstance(failure.facts.get(name), kind)}


def only_blamed(findings: Sequence[Finding], method: str) -> Finding | None:
    """Return the finding of the one line that is known to make the method's artifact wrong; None if there are more."""
    wrong = [one for one in findings if one.kind in BAKED and one.evidence.get("method") == method]
    lines = {(one.file, one.line): one for one in wrong}
    only = next(iter(lines.values())) if len(lines) == 1 else None
    return only if only is not None and only.line is not None and only.effect == "harmful" else None


def list_candidates(findings: Sequence[Finding]) -> list[str]:
    """Return the lines, as `net.py:6`, that the tracer warned of or that keep something, without harmless ones."""
    kinds = {*BAKED, Kind.TRACER_WARNING}
    harmless = {(one.file, one.line) for one in findings if one.effect == "harmless"}
    harmful = {(one.file, one.line) for one in findings if one.effect == "harmful"}
    named = [one for one in findings if one.kind in kinds and one.line is not None]
    return [*dict.fromkeys(name_line(one.file, one.line) for one in named
                           if (one.file, one.line) not in harmless - harmful)]  # fmt: skip


def name_line(file: str | None, line: int | None) -> str:
    """Return the line as a list of candidates has it: `net.py:6`."""
    return f"{file}:{line}"
