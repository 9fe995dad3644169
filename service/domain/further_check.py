"""A further check: one that goes on with an artifact's archive and a larger budget, and what later checks came to."""

from datetime import datetime

from service.domain.trace_request import State
from tracehouse.artifact.manifest import Artifact
from tracehouse.differential.named_budgets import BUDGETS
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import pool_of


class LaterCheck(Frozen):
    """A trace request that goes on, or went on, with the check of an artifact.

    `digest` is the artifact that it made of the same archive; None if it has made none.
    """

    trace_request: str
    state: State
    verdict: Verdict | None
    digest: str | None
    created_at: datetime


def idle_pool_of(artifact: Artifact) -> str | None:
    """Return the pool whose idle workers may go on with the artifact's check; None if more time would not help.

    It may if a limit cut the check, which had less time than a deep one.
    """
    check = artifact.check
    has_less = check.budget != "deep" and (check.budget_s is None or check.budget_s < BUDGETS["deep"].least_s)
    is_cut = any(layer.is_cut for layer in check.layers) and check.verdict is not Verdict.REJECTED
    return pool_of([artifact.device]) if is_cut and has_less and artifact.conversion is not None else None
