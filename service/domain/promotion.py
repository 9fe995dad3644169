"""Promotion: whether a new version becomes its model's default version, which answers if no version is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from tracehouse.contract.contract import Contract
from tracehouse.contract.coverage import list_uncovered
from tracehouse.findings.verdict import Verdict, worst
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import Promote

_NAMED_MAX = 8


class Promotion(Frozen):
    """Whether a version became the default version when it was registered, and why."""

    promoted: bool = Field(description="Whether it became the default version at once.")
    reason: str


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version as its callers know it: its verdict, and the contracts of its artifacts for each device.

    `contracts` is None if they cannot be read, because another release stored them. `is_withdrawn`: it answers no more,
    because a later check found a wrong answer of it.
    """

    version: int
    verdict: Verdict
    contracts: Mapping[str, Sequence[Contract]] | None
    is_withdrawn: bool = False


def decide_promotion(promote: Promote, new: ServedVersion, default: ServedVersion | None) -> Promotion:
    """Decide whether a new version becomes the default version in place of the present one, if there is one.

    The present one counts only if `promote` is auto.
    """
    if promote == "never":
        return Promotion(promoted=False, reason="the trace request has `promote` never")
    if new.is_withdrawn:
        return Promotion(promoted=False, reason="a later check refuted one of its artifacts, so it answers nothing")
    if promote == "always":
        return Promotion(promoted=True, reason="the trace request has `promote` always")
    if default is None:
        return Promotion(promoted=True, reason="the model had no default version")
    if default.is_withdrawn:
        return Promotion(promoted=True, reason=f"version {default.version} is withdrawn, and answers no more")
    worse = _list_worse(new, default)
    if not worse:
        reason = f"it accepts all that version {default.version} accepts, and its verdict is as good"
        return Promotion(promoted=True, reason=reason)
    more = f"; and {len(worse) - _NAMED_MAX} more" if len(worse) > _NAMED_MAX else ""
    reason = f"version {default.version} stays the default version: {'; '.join(worse[:_NAMED_MAX])}{more}"
    return Promotion(promoted=False, reason=reason)


def _list_worse(new: ServedVersion, default: ServedVersion) -> list[str]:
    """Return in words in what a new version is worse than the default version."""
    worse = []
    if worst([new.verdict, default.verdict]) is not default.verdict:
        worse.append(f"the new verdict is {new.verdict}, and was {default.verdict}")
    if default.contracts is None or new.contracts is None:
        return [*worse, "the contracts cannot be compared, because another release stored one of them"]
    for device, contracts in default.contracts.items():
        prefix = f"on {device}: " if len(default.contracts) > 1 else ""
        if device in new.contracts:
            worse += [f"{prefix}{what}" for what in list_uncovered(contracts, new.contracts[device])]
        else:
            worse.append(f"it is not traced for {device}")
    return worse
