"""Layout trials: whether the model or its artifact answers otherwise if only the layout of the inputs changes.

A trace keeps the branch that the example's strides, its offset or its gradient led to.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from tracehouse.check.artifact_answer import ask_artifact
from tracehouse.check.calls import CallResult
from tracehouse.check.inputs.layouts import LayoutCase
from tracehouse.check.instrumentation.layout_reads import LayoutRead, LayoutReadRecorder, find_first_difference
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import ComparisonResult, Difference
from tracehouse.eager.call import Call
from tracehouse.errors import LimitExceeded, ModelRaised
from tracehouse.findings import differences
from tracehouse.findings.finding import Finding
from tracehouse.findings.source_lines import SourceLine
from tracehouse.introspection import user_lines

_SIDES = ("eager on contiguous inputs without gradients", "eager on these")


@dataclass(frozen=True)
class LayoutEffect:
    """How answers differ in one case, and the first read that shows the model the layout; None if none was seen."""

    case: str
    with_gradients: bool
    difference: Difference
    read: LayoutRead | None


@dataclass(frozen=True)
class _PlainAnswer:
    """Eager's answer to a contiguous call, and whether the artifact gives it too."""

    call: Call
    answer: CallResult
    artifact_agrees: bool


class LayoutTrials:
    """Asks the eager model and the artifact the same values in several layouts.

    `tolerance` is relative, and `within_s` is the limit of each call of the model.
    """

    def __init__(
        self,
        eager: EagerOracle,
        artifact: torch.jit.ScriptModule,
        *,
        tolerance: float,
        within_s: float,
    ) -> None:
        self._eager = eager
        self._artifact = artifact
        self._tolerance = tolerance
        self._within_s = within_s
        self._plain: list[_PlainAnswer] = []  # of the contiguous calls that were asked

    def run(self, cases: Iterable[LayoutCase], budget: Budget, left_out: list[str]) -> Iterator[LayoutEffect]:
        """Yield the effect of each case that has one; enter those without time or memory into `left_out`.

        A case that the model refuses has none: whoever calls it so gets an error and no wrong answer.
        """
        for case in cases:
            if budget.is_spent:
                left_out.append(case.name)
                continue
            try:
                effect = self.find_effect(case)
            except ModelRaised:
                continue
            except (TooSlow, LimitExceeded):
                left_out.append(case.name)
                continue
            if effect is not None:
                yield effect

    def are_right_on(self, plain: Call) -> bool:
        """Whether the model answers this contiguous call, and the artifact answers the same."""
        try:
            return self._answer_plain(plain).artifact_agrees
        except (ModelRaised, TooSlow, LimitExceeded):
            return False

    def find_effect(self, case: LayoutCase) -> LayoutEffect | None:
        """Return the effect of one case. Raises ModelRaised if the model refuses it, LimitExceeded and TooSlow."""
        known = self._answer_plain(case.plain)
        plain = known.answer
        answer = self._eager.answer(case.laid_out, within_s=self._within_s, gradients=case.with_gradients)
        if plain.drew and case.with_gradients:
            return None  # torch's compiler draws other numbers where it also computes gradients
        for compared in self._compare(case, known, answer):
            if compared.difference is None:
                continue
            read = self._find_read(case)
            # Kernels round otherwise on other strides, so a difference of rounding needs a line that explains it.
            may_be_rounding = compared.differs_by_rounding or case.has_equal_rows
            if read is not None or not may_be_rounding:
                return LayoutEffect(case.name, case.with_gradients, compared.difference, read)
        return None

    def _answer_plain(self, call: Call) -> _PlainAnswer:
        for known in self._plain:
            if known.call is call:
                return known
        answer = self._eager.answer(call, within_s=self._within_s)
        self._plain.append(_PlainAnswer(call, answer, self._ask_artifact(call, answer).agrees))
        return self._plain[-1]

    def _compare(self, case: LayoutCase, plain: _PlainAnswer, answer: CallResult) -> Iterator[ComparisonResult]:
        """Yield how the artifact's answer compares, and then how eager's does with that on contiguous inputs.

        If the artifact is wrong on contiguous inputs too, its answer says nothing of the layout. Random numbers are
        drawn in the order of the memory, so eager may draw others: that is no difference.
        """
        if plain.artifact_agrees:
            yield self._ask_artifact(case.laid_out, answer, gradients=case.with_gradients)
        if not (plain.answer.drew or answer.drew):
            yield self._eager.compare(case.plain, plain.answer, answer, self._tolerance, _SIDES)

    def _ask_artifact(self, call: Call, answer: CallResult, *, gradients: bool = False) -> ComparisonResult:
        return ask_artifact(
            self._eager, self._artifact, call, answer, tolerance=self._tolerance, seed=self._eager.seed,
            gradients=gradients,
        ).compared  # fmt: skip

    def _find_read(self, case: LayoutCase) -> LayoutRead | None:
        plain, laid_out = LayoutReadRecorder(), LayoutReadRecorder()
        try:
            self._eager.answer(case.plain, within_s=self._within_s, world=plain)
            self._eager.answer(case.laid_out, within_s=self._within_s, world=laid_out, gradients=case.with_gradients)
        except (ModelRaised, TooSlow):  # a model that traces functions itself does not get through a mode
            return None
        return find_first_difference(plain, laid_out)


def findings_of_effects(method: str, effects: Sequence[LayoutEffect]) -> Iterator[Finding]:
    """Yield a finding for the layouts and one for gradients, if answers follow them."""
    layouts = [one for one in effects if not one.with_gradients]
    if layouts:
        yield _finding(differences.layout_differs, method, layouts)
    if len(layouts) < len(effects):
        yield _finding(differences.gradient_mode_differs, method, [one for one in effects if one.with_gradients])


def finding_of_own_layouts(method: str, effects: Sequence[LayoutEffect]) -> Finding:
    """Return the finding that answers follow the layout of inputs that were handed in."""
    return _finding(differences.layout_not_covered, method, effects)


def _finding(
    make: Callable[[str, Sequence[str], Difference, str | None, SourceLine], Finding],
    method: str,
    effects: Sequence[LayoutEffect],
) -> Finding:
    """Return the finding of the first effect whose line is known, or else of the first one; it names all cases."""
    shown = next((one for one in effects if one.read is not None), effects[0])
    cases = [shown.case, *(one.case for one in effects if one is not shown)]
    read = shown.read
    line = user_lines.line_facts(None if read is None else read.line)
    return make(method, cases, shown.difference, None if read is None else read.name, line)
