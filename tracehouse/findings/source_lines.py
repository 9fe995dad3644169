"""The source line of a finding: its fields `file`, `line` and `source`, or none of them if no line is known."""

from collections.abc import Mapping, Sequence
from typing import Any

from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind

SourceLine = Mapping[str, Any]
UNKNOWN_LINE: SourceLine = {}

_FIELDS = {"file": str, "line": int, "source": str}


def line_of_failure(failure: Failure) -> SourceLine:
    """Return the line in a failure's facts. A child may have invented them, so a field of a wrong type is left out."""
    return {name: failure.facts[name] for name, kind in _FIELDS.items() if isinstance(failure.facts.get(name), kind)}


def only_warned_line(findings: Sequence[Finding]) -> SourceLine:
    """Return the line that the tracer warned of, if there is only one. Of several, nobody knows which is at fault."""
    warned = {(one.file, one.line): one for one in findings if one.kind == Kind.TRACER_WARNING and one.line is not None}
    if len(warned) != 1:
        return UNKNOWN_LINE
    [finding] = warned.values()
    return {"file": finding.file, "line": finding.line, "source": finding.source}
