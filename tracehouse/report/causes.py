"""Causes: the findings of a check, with what was found out about the same line put together."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import BAKED, SAID_FIRST, Kind
from tracehouse.report.finding_text import worth_reading
from tracehouse.report.report_source import weight_of

_BY_COMPARISON = (Kind.OUTPUT_DIFFERS, Kind.OUTPUT_DIFFERS_ELSEWHERE)
WEIGHTS = ("harmful", "unknown", "other")

# What the findings of one cause have in common: their line or, where none is known, a counterexample or words.
_Key = tuple[str, object, object]


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause. `lead` explains it best; `others` are what else was found out about it, without the lead."""

    lead: Finding
    others: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.lead, *self.others

    @property
    def weight(self) -> str:
        """The worst of what its findings do: `harmful`, `unknown` or `other`."""
        weights = {weight_of(one) for one in self.findings}
        return next((one for one in WEIGHTS if one in weights), "other")

    @property
    def remedy(self) -> str | None:
        return next((one.remedy for one in self.findings if one.remedy), None)

    @property
    def counterexample(self) -> int | None:
        """The number of the counterexample that shows it."""
        return next((one.counterexample for one in self.findings if one.counterexample is not None), None)


def causes_of(findings: Sequence[Finding]) -> list[Cause]:
    """Return each cause once, the worst first. What is proved harmless is no cause."""
    groups: dict[_Key, list[Finding]] = {}
    by_counterexample: dict[int, _Key] = {}
    for one in sorted(worth_reading(findings), key=lambda one: one.line is None):
        key = _key_of(one)
        if one.counterexample is not None:
            known = by_counterexample.setdefault(one.counterexample, key)
            key = known if one.line is None else key
        group = groups.setdefault(key, [])
        if one not in group:
            group.append(one)
    causes = [_cause(group) for group in groups.values()]
    return sorted(causes, key=lambda one: (one.lead.kind not in SAID_FIRST, WEIGHTS.index(one.weight)))


def harmless(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that were proved to do no harm."""
    return [one for one in findings if weight_of(one) == "harmless"]


def depending_rows(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that say that a row's answer depends on the other rows: nobody may overlook them."""
    return [one for one in findings if one.kind == Kind.ROWS_DEPEND or _normalises_by_batch(one)]


def _normalises_by_batch(finding: Finding) -> bool:
    modules = finding.evidence.get("modules")
    return (
        finding.kind == Kind.TRAINING_MODE
        and isinstance(modules, list)
        and any(isinstance(one, dict) and one.get("operator") == "aten::batch_norm" for one in modules)
    )


def _key_of(finding: Finding) -> _Key:
    if finding.file is not None and finding.line is not None:
        return "line", finding.file, finding.line
    return "said", finding.kind, finding.detail


def _cause(group: Sequence[Finding]) -> Cause:
    lead, *others = sorted(group, key=_place)
    return Cause(lead, tuple(others))


def _place(finding: Finding) -> int:
    """Return the place among the findings of one cause: what explains comes first, what only shows it comes later."""
    if finding.kind in BAKED:
        return 0
    if finding.kind == Kind.TRACER_WARNING:
        return 3
    return 2 if finding.kind in _BY_COMPARISON else 1
