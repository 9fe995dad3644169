"""The race of forms: which form of an artifact answers on this kind of machine, and what became of the others."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

from pydantic import Field

from service.domain.machine_finding import MachineFinding
from tracehouse.frozen import Frozen
from tracehouse.spec.raced_form import RacedForm

# A form answers if it was so many times as fast over all shapes, and not slower than this with any. Chosen: two runs of
# one form differ by less than a tenth, and mostly by less than a twentieth.
_SPEEDUP_MIN, _SLOWEST_MIN = 1.15, 0.95

# Of a contract whose artifact is raced: each is called at its smallest and its largest sizes. Chosen.
REGIONS_MAX = 4


class FormTrial(Frozen):
    """What became of one form in the race. Times are those of one call, from the request to its answer, in seconds."""

    form: RacedForm
    out: str | None = Field(None, description="Why the form may not answer; null if it gave the same answers.")
    calls: int = Field(0, ge=0, description="How many calls were compared with those of the form as saved.")
    form_s: float | None = Field(
        None, description="The lower quartile of its times, in seconds; null if it was not timed."
    )
    saved_s: float | None = Field(None, description="The lower quartile of the form as saved, between the same calls.")
    speedup: float | None = Field(
        None, description="How many times as fast it was as the form as saved, over all shapes that were timed."
    )
    slowest: float | None = Field(None, description="`speedup` for the one shape with which the form gained least.")


class FormRace(MachineFinding):
    """The result of a race of an artifact's forms on one kind of machine, with one version of torch and of each of
    these packages."""

    packages: dict[str, str | None] = Field(
        {}, description="The versions of other runtimes' packages; null for one that is not installed."
    )
    raced_at: datetime
    answers: RacedForm | None = Field(None, description="The form that answers; null for the form as saved.")
    speedup: float | None = Field(None, description="How many times as fast it was as the form as saved.")
    why: str = Field(description="Why this form answers.")
    trials: list[FormTrial] = []

    @classmethod
    def of(
        cls,
        digest: str,
        machine: str,
        torch: str,
        raced_at: datetime,
        trials: Sequence[FormTrial],
        *,
        packages: Mapping[str, str | None] | None = None,
        why: str | None = None,
    ) -> Self:
        """Return the result of these trials: the fastest of the forms that passed, if it won clearly.

        Where none was made, `why` says the reason.
        """
        won = [one for one in trials if _wins(one)]
        best = max(won, key=lambda one: one.speedup or 0.0, default=None)
        return cls(
            digest=digest,
            machine=machine,
            torch=torch,
            packages=dict(packages or {}),
            raced_at=raced_at,
            answers=None if best is None else best.form,
            speedup=None if best is None else best.speedup,
            why=why or _explain(best, trials),
            trials=[*trials],
        )

    def without(self, form: RacedForm, why: str) -> Self:
        """Return the result in which this form is out, so that the form as saved answers."""
        trials = [one.model_copy(update={"out": why}) if one.form is form else one for one in self.trials]
        what = f"the form as saved answers again: {form} was taken back, because {why}"
        return self.model_copy(update={"answers": None, "speedup": None, "why": what, "trials": trials})


def _explain(best: FormTrial | None, trials: Sequence[FormTrial]) -> str:
    if best is not None:
        return f"it gave the same answers in {best.calls} calls, and was {best.speedup:.2f} times as fast"
    if any(one.out is None for one in trials):
        enough = f"{_SPEEDUP_MIN} times as fast, and {_SLOWEST_MIN} with each shape"
        return f"no form that gave the same answers was {enough}"
    return "no other form gave the same answers"


def _wins(trial: FormTrial) -> bool:
    if trial.out is not None or trial.speedup is None or trial.slowest is None:
        return False
    return trial.speedup >= _SPEEDUP_MIN and trial.slowest >= _SLOWEST_MIN
