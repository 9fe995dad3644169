"""Findings as plain text, for terminals and for the messages of failed tests."""

import textwrap
from collections.abc import Iterator, Sequence

from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import BAKED, Kind, entry_of
from tracehouse.report.report_source import MARKS, weight_of

INDENT = "    "
_WIDTH = 110


def worth_reading(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that may do harm, or that a person must know.

    What was found out about a line comes before what torch warned of; a warning of torch about a line that another
    finding explains is left out.
    """
    explained = {(one.file, one.line) for one in findings if one.kind in BAKED}
    kept = [
        one
        for one in findings
        if weight_of(one) != "harmless" and not (one.kind == Kind.TRACER_WARNING and (one.file, one.line) in explained)
    ]
    return sorted(kept, key=lambda finding: finding.kind == Kind.TRACER_WARNING)


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield the finding's title, its line of Python, what was seen, and the remedy."""
    yield f"{INDENT}{MARKS[weight_of(finding)]} {finding_title(finding)}"
    if finding.source:
        yield f"{INDENT * 3}{finding.source}"
    yield from wrap(finding.detail, 2)
    if finding.remedy:
        yield from wrap(f"Remedy: {finding.remedy}", 2)


def finding_title(finding: Finding) -> str:
    """Return the finding's kind and place, and what all findings of its kind have in common."""
    where = f" at {finding.file}:{finding.line}" if finding.file and finding.line else ""
    entry = entry_of(finding.kind)
    return f"{finding.kind}{where}" + (f": {entry.title}" if entry is not None else "")


def wrap(paragraph: str, depth: int) -> list[str]:
    """Return the paragraph in lines, indented so often."""
    indent = INDENT * depth
    return textwrap.wrap(paragraph, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
