"""How well the check judges a model of the corpus, beside how well it did.

A model is checked as `tracehouse.check` checks a live one, and judged as benchmarks/check_quality.py judges it. That it
is so over HTTP, tests/acceptance/test_corpus.py shows on some models.
"""

import io
from typing import Any

import torch

import tracehouse
from benchmarks import check_quality
from benchmarks.check_quality import Ours
from benchmarks.trace_requests import Done
from tests.conftest import make_artifact
from tests.corpus import specimen
from tests.corpus.specimen import NOT_GOOD, Specimen
from tracehouse.errors import TraceError

# With the larger budget, what is found does not hang on how fast the machine is. It is given only to what came to no
# good end with the smaller one.
BUDGETS_S = (3.0, 120.0)


def judge(case: Specimen) -> Ours:
    """Judge the check of it, with more time where it needs that."""
    for budget_s in BUDGETS_S:
        ours = check_quality.judge(case, _check(case, budget_s))
        if is_as_good_as_it_was(case, ours) or not check_quality.was_short_of_time(ours, budget_s):
            break
    return ours


def is_as_good_as_it_was(case: Specimen, ours: Ours) -> bool:
    return check_quality.is_good(ours) or ours.outcome == NOT_GOOD.get(case.name)


def _check(case: Specimen, budget_s: float) -> Done:
    args, kwargs = case.example
    options: dict[str, Any] = {"seed": specimen.SEED, "strict": False, "budget_s": budget_s}
    try:
        report = tracehouse.check(case.fresh(), args, example_kwarg_inputs=kwargs or None, **options)
    except TraceError as error:
        return Done(error.failure(), None, b"", 0.0)
    archive = io.BytesIO()
    torch.jit.save(report.artifact, archive)
    return Done(None, make_artifact(check=report.check, contract=report.contract), archive.getvalue(), 0.0)
