"""The race of forms: whether another form of an artifact answers as the form as saved does, and how much faster.

Each form has a process of its own, in the jail in which it would serve, and so has the form as saved beside it. Both
are asked the same, and the answers are compared here by the fixed rule of `tracehouse.differential.comparison`, with
the tolerance of the artifact's check. What differs in one call, raises where the other does not, draws random numbers,
ends its process or takes too long is out. Only what is left is timed, by turns with the form as saved.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import prod

import numpy as np

from service.domain.form_race import FormTrial
from service.protocol.bounds import ANSWER_MAX_BYTES
from service.protocol.calls import Call
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.blobs import Blobs
from tracehouse.artifact.manifest import Artifact
from tracehouse.differential import batch_rows, golden
from tracehouse.differential.comparison import Answer, compare
from tracehouse.errors import TraceError, TracerLost
from tracehouse.spec.raced_form import RacedForm, package_versions
from tracehouse.tensors.tensor import Tensor
from workers.limits import TraceLimits
from workers.processes.artifact import ArtifactProcess
from workers.processes.exits import AttemptStopped
from workers.race_calls import JoinedRows, RaceCall, RaceCalls
from workers.trial_process import TrialProcesses, lower_quartile, shorten, time_of, why_ended

METHOD = "forward"
# Each call is asked so often, in another order each time: torch compiles for what it saw in the calls before.
_ROUNDS = golden.CALLS_TO_SPECIALISE
# Calls of each shape that are timed, by turns; at most so many, and so many seconds, but at least a few. Chosen.
_TIMED_MAX, _TIMED_MIN, _TIMED_S = 31, 5, 5.0
_NAMES = ("the form as saved", "this form")

# Makes a call of a form, None for the form as saved, and returns how long it took in seconds.
TakeTime = Callable[[RacedForm | None, Callable[[], object]], float]


def take_time(form: RacedForm | None, call: Callable[[], object]) -> float:  # noqa: ARG001 - tests look at it
    """Make the call, and return how long it took."""
    return time_of(call)


class _RaceStopped(Exception):
    """The race cannot go on, for no form's fault."""


class _FormOut(Exception):
    """The form may not answer; the text says why."""


@dataclass
class _Pair:
    """The two processes of one trial, and how many calls both were asked."""

    form: RacedForm
    saved: ArtifactProcess
    raced: ArtifactProcess
    tolerance: float
    calls: RaceCalls
    counted: int = 0
    times: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # by call: as saved, and in the form

    def compare(self) -> None:
        """Ask both all calls, in several orders. Raises _FormOut."""
        compared, rng = self.calls.compared(), np.random.default_rng(0)
        for number in range(_ROUNDS):
            order = range(len(compared)) if number == 0 else rng.permutation(len(compared))
            for place in order:
                self._compare(compared[int(place)])
        for joined in self.calls.joined():
            self._compare_rows(joined)

    def time(self, measure: TakeTime) -> None:
        """Take the times of both, by turns, of calls that are answered: a contract may take sizes on which both raise.

        Raises _FormOut.
        """
        timed = [one for one in self.calls.timed() if not isinstance(self._ask(self.saved, one.inputs), str)]
        if not timed:
            raise _FormOut("it cannot be timed: the form as saved raises on all calls that would be")
        self.times = {one.name: self._time(one, measure) for one in timed}

    def _compare(self, call: RaceCall) -> None:
        saved, raced = self._ask(self.saved, call.inputs), self._ask(self.raced, call.inputs)
        self.counted += 1
        if (found := _difference(saved, raced, self.tolerance)) is not None:
            raise _FormOut(f"{call.name}: {found}")

    def _compare_rows(self, joined: JoinedRows) -> None:
        """Compare what the form answers to the rows together with what the form as saved answers to each request."""

        def ask(inputs: Sequence[Tensor]) -> Answer | str:
            self.counted += 1
            is_alone = any(inputs is one for one in joined.requests)
            return self._ask(self.saved if is_alone else self.raced, inputs)

        try:
            found = batch_rows.find_row_dependence(ask, joined.requests, joined.batch, self.tolerance)
        except batch_rows.RowsRefused as refused:
            found = f"they are refused: {refused}"
        if found is not None:
            raise _FormOut(f"{joined.name}: {found}")

    def _time(self, one: RaceCall, measure: TakeTime) -> tuple[float, float]:
        call, expected = Call(METHOD, one.inputs, ANSWER_MAX_BYTES), self.calls.output_datatypes(one)
        saved_s: list[float] = []
        raced_s: list[float] = []
        until = time.monotonic() + _TIMED_S
        while len(saved_s) < _TIMED_MIN or (len(saved_s) < _TIMED_MAX and time.monotonic() < until):
            turns = [(None, self.saved, saved_s), (self.form, self.raced, raced_s)]
            for form, process, taken in turns if len(saved_s) % 2 else reversed(turns):
                taken.append(measure(form, partial(process.serve, call, expected)))
        return lower_quartile(saved_s), lower_quartile(raced_s)

    def _ask(self, process: ArtifactProcess, inputs: Sequence[Tensor]) -> Answer | str:
        process.ask(self.calls.call, inputs, seed=0)
        return process.answer()


class FormRunner:
    """Runs the race of an artifact's forms. `limits` are those of each process; their wall clock is that of a trial.

    `measure` takes the times: a test has its own.
    """

    def __init__(self, zygote: Zygote, blobs: Blobs, limits: TraceLimits, measure: TakeTime = take_time) -> None:
        self._zygote = zygote
        self._blobs = blobs
        self._limits = limits
        self._measure = measure

    def run(self, artifact: Artifact, threads: int, cancellation: Cancellation) -> list[FormTrial] | None:
        """Return what became of each form, with so many threads.

        It is None if the race was cancelled, or the zygote was lost.
        Raises a ServiceError if a file is missing, or nothing can be forked.
        """
        if threads != self._limits.threads:
            changed = {"threads": threads, "cpu_s": int(self._limits.wall_s) * threads}
            other = FormRunner(self._zygote, self._blobs, self._limits.model_copy(update=changed), self._measure)
            return other.run(artifact, threads, cancellation)
        try:
            found = [self._try(artifact, form, cancellation) for form in RacedForm]
        except _RaceStopped:
            return None
        return found if cancellation.reason is None else None

    def _try(self, artifact: Artifact, form: RacedForm, cancellation: Cancellation) -> FormTrial:
        versions, counted = package_versions(), 0
        if missing := [name for name in form.packages if versions[name] is None]:
            return FormTrial(form=form, out=f"{missing[0]} is not installed: pip install 'tracehouse-service[forms]'")
        try:
            with ExitStack() as stack:
                pair = self._start(stack, artifact, form, cancellation)
                try:
                    pair.compare()
                    pair.time(self._measure)
                finally:
                    counted = pair.counted
                return _timed(pair)
        except _FormOut as out:
            why = str(out)
        except (AttemptStopped, TracerLost):  # it is not the form's fault
            raise _RaceStopped from None
        except TraceError as error:
            why = why_ended(error, "checked", self._limits.wall_s)
        return FormTrial(form=form, out=shorten(why), calls=counted)

    def _start(self, stack: ExitStack, artifact: Artifact, form: RacedForm, cancellation: Cancellation) -> _Pair:
        """Return the two processes when both have loaded. Raises what `_Pair` raises."""
        until = time.monotonic() + self._limits.wall_s
        processes = TrialProcesses(self._zygote, self._blobs, self._limits)
        try:
            calls = processes.calls(artifact, METHOD)
        except ValueError as error:
            raise _FormOut(str(error)) from error
        saved, raced = (processes.load(stack, artifact, cancellation, until, form=one) for one in (None, form))
        return _Pair(form, saved, raced, artifact.check.tolerance, calls)


def _difference(saved: Answer | str, raced: Answer | str, tolerance: float) -> str | None:
    """Return how the form's answer is another one than that of the form as saved, or None."""
    if isinstance(saved, str):
        return None if isinstance(raced, str) else f"it answers where the form as saved raises: {saved}"
    if isinstance(raced, str):
        return f"it raises where the form as saved answers: {raced}"
    if saved.drew or raced.drew:
        return "random numbers are drawn"
    found = compare(saved, raced, tolerance, _NAMES).difference
    return None if found is None else f"{found.leaf!r} differs: {found.what}"


def _timed(pair: _Pair) -> FormTrial:
    ratios = [saved_s / form_s for saved_s, form_s in pair.times.values()]
    saved_s, form_s = next(iter(pair.times.values()))
    return FormTrial(
        form=pair.form,
        calls=pair.counted,
        form_s=form_s,
        saved_s=saved_s,
        speedup=prod(ratios) ** (1 / len(ratios)),
        slowest=min(ratios),
    )
