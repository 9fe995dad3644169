"""The layouts in which calls were handed in, beside the contiguous copies that are traced and compared."""

from collections.abc import Mapping, Sequence

import torch

from tracehouse.check.inputs.layouts import LayoutCase
from tracehouse.check.layout_trials import LayoutTrials, finding_of_own_layouts
from tracehouse.check.oracle import EagerOracle
from tracehouse.differential.budget import Budget
from tracehouse.differential.case_names import EXAMPLE
from tracehouse.eager.call import Call, CheckCall
from tracehouse.findings.coverage import layouts_left_out
from tracehouse.findings.finding import Finding
from tracehouse.torch_values.layouts import copy_laid_out, is_plain

# By case, the tensors of a call as they were handed in, by their names.
OwnLayouts = Mapping[str, Mapping[str, torch.Tensor]]

LAYOUTS_SHARE_OF_BUDGET = 0.1  # of the check's budget, beside it: such calls are few. Chosen.


def find_own_layouts(given: Mapping[str, Call]) -> OwnLayouts:
    """Return by case the tensors of each call of which one is not plain, by their names."""
    tensors = {case: call.tensors for case, call in given.items()}
    return {case: own for case, own in tensors.items() if not all(map(is_plain, own.values()))}


def judge_own_layouts(
    eager: EagerOracle,
    artifact: torch.jit.ScriptModule,
    own: OwnLayouts,
    example: Call,
    check_calls: Sequence[CheckCall],
    *,
    tolerance: float,
    within_s: float,
    budget: Budget,
) -> list[Finding]:
    """Return the finding that answers follow the layout of calls that were handed in, if they do.

    `own` has the tensors as they were handed in, by case, and `example` and `check_calls` have plain copies of them.
    """
    calls = {EXAMPLE: example, **{one.name: one.call for one in check_calls}}
    cases = [_make_case(case, calls[case], tensors) for case, tensors in own.items()]
    left_out: list[str] = []
    trials = LayoutTrials(eager, artifact, tolerance=tolerance, within_s=within_s)
    effects = [*trials.run(cases, budget, left_out)]
    findings = [finding_of_own_layouts(example.method, effects)] if effects else []
    if left_out:
        findings.append(layouts_left_out(left_out, budget.seconds))
    return findings


def _make_case(case: str, plain: Call, own: Mapping[str, torch.Tensor]) -> LayoutCase:
    laid_out = plain.with_tensors(own).copied_by(copy_laid_out)
    has_gradients = any(tensor.requires_grad for tensor in own.values())
    return LayoutCase(f"{case}, laid out as it was handed in", plain, laid_out, with_gradients=has_gradients)
