"""Blame: the line that makes the answers to a call differ, as far as the layers know it."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tracehouse.check.evidence import Evidence
from tracehouse.check.probe.causes import Cause, CauseTester
from tracehouse.check.target import Target
from tracehouse.eager.call import Call
from tracehouse.findings.source_lines import GRAPHS_DIFFER, INPUTS_CHANGED, VALUE_CHANGED
from tracehouse.introspection.user_lines import Line


@dataclass(frozen=True)
class BlamedLine:
    """A line that is at fault, how that is known, and whether it reads a value out of a tensor."""

    line: Line
    known_by: str
    reads_value: bool


def make_tester(target: Target, evidence: Evidence) -> CauseTester:
    """Return what tells the causes of calls apart: the reads of values that are not harmless, and the sizes."""
    observation = evidence.observe.observation
    watched = {one.read.site for one in evidence.judged if one.effect != "harmless" and one.read.depends_on == "values"}
    in_torch = observation is None or observation.in_torch
    baked = {symbol for one in evidence.wrong_sizes for symbol in one.symbols}
    return CauseTester(target, watched, evidence.groups, baked=baked, in_torch=in_torch)


def find_blamed_line(target: Target, evidence: Evidence, call: Call) -> BlamedLine | None:
    """Return the line that alone makes the answers to this call differ; None if no line is known."""
    tester = make_tester(target, evidence)
    blamed = [*_list_blamed(evidence, tester, tester.cause_of(call).symbols)]
    for line, cause in blamed:
        if cause is not None and tester.shows(call, cause):
            return line
    untested = [line for line, cause in blamed if cause is None]
    return untested[0] if len(blamed) == len(untested) == 1 else None


def _list_blamed(
    evidence: Evidence, tester: CauseTester, changed: Collection[str]
) -> Iterator[tuple[BlamedLine, Cause | None]]:
    """Yield the lines that are known to make the artifact wrong, each with its cause, or None if no read is seen.

    A size is a cause only if one of its symbols is among the `changed` ones. Symbols that are not baked may change too.
    """
    for read in evidence.wrong_reads:
        known_by = INPUTS_CHANGED if read.divergence is None else VALUE_CHANGED
        yield BlamedLine(read.line, known_by, reads_value=True), tester.at_line(read.line)
    for value in evidence.wrong_values:
        if (line := evidence.line_of_value(value)) is not None:
            yield BlamedLine(line, GRAPHS_DIFFER, reads_value=False), tester.at_line(line)
    baked = {symbol for one in evidence.wrong_sizes for symbol in one.symbols}
    others = {*evidence.groups.symbols} - baked if evidence.groups is not None else set()
    for size in evidence.wrong_sizes:
        if size.line is not None and size.divergence is not None and {*size.symbols} & {*changed}:
            cause = Cause(symbols=frozenset({*size.symbols} | others))
            yield BlamedLine(size.line, GRAPHS_DIFFER, reads_value=False), cause
