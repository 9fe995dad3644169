"""Value questions: what Python asks about the values that it reads at other sizes than the example's.

`flip` gives other answers at the example's sizes alone. An answer that changes nothing there may decide at others.
"""

from collections import deque
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

import torch

from tracehouse.check.calls import CallResult
from tracehouse.check.instrumentation.followed_code import pass_through
from tracehouse.check.instrumentation.model_checks import is_check
from tracehouse.check.instrumentation.tracked_values import Question, ValueTracker, track_functions
from tracehouse.check.instrumentation.value_follower import ValueFollower
from tracehouse.check.instrumentation.value_reads import ReadRecorder
from tracehouse.check.target import Target
from tracehouse.eager.call import Call
from tracehouse.eager.source import seed_all

# The bounds are choices: each set of answers costs a call.
_TOGETHER_MAX = 3  # at most so many answers are overridden in one call
_CALLS_MAX = 40

_Answers = Mapping[Question, bool]


class ValueQuestions:
    """Finds the answers that decide at the sizes of a call, and that decide nothing at the example's."""

    def __init__(self, target: Target, take_copy: Callable[[], torch.nn.Module]) -> None:
        """`take_copy` returns a copy of the model for one call."""
        self._target = target
        self._take_copy = take_copy
        self._example: _Asked | None = None
        self._judged: set[Question] = set()  # those that decide at the example's sizes: `flip` has judged them

    def find_deciding(self, call: Call) -> str | None:
        """Return what another answer changes at the sizes of this call; None if nothing was found that does.

        Raises whatever the model raises.
        """
        if self._example is None:
            self._ask_example()
        assert self._example is not None
        asked = _Asked(*self._run(call, {}))
        if lost := {*asked.tracker.lost} - {*self._example.tracker.lost}:
            return f"it is unknown what follows from a value that the model reads: {asked.tracker.lost[lost.pop()]}"
        waiting = deque(_add_one({}, asked.tracker, self._judged))
        for _ in range(_CALLS_MAX):
            if not waiting:
                return None
            answers = waiting.popleft()
            reason, tracker = self._find_effect(call, asked.answer, answers)
            if reason is not None:
                return reason
            if tracker is not None and len(answers) < _TOGETHER_MAX:
                waiting.extend(_add_one(answers, tracker, self._judged | asked.tracker.answers.keys()))
        return "the model asks too many questions about the values that it reads"

    def _ask_example(self) -> None:
        call = self._target.call
        self._example = _Asked(*self._run(call, {}))
        for answers in _add_one({}, self._example.tracker, ())[:_CALLS_MAX]:
            if self._find_effect(call, self._example.answer, answers)[0] is not None:
                self._judged |= answers.keys()

    def _find_effect(self, call: Call, answer: CallResult, answers: _Answers) -> tuple[str | None, ValueTracker | None]:
        """Return what these answers change in the model's answer, and what is asked; None for both if it refuses."""
        try:
            other, tracker = self._run(call, answers)
        except Exception as error:  # noqa: BLE001 - submitted code: anything may follow from an answer that is not true
            if is_check(error):
                return None, None
            return f"the model raises {type(error).__name__} where Python gets another answer about a value", None
        if self._target.eager.find_effect(call, answer, other, self._target.tolerance) is None:
            return None, tracker
        return "the model answers otherwise where Python gets another answer about a value that it reads", tracker

    def _run(self, call: Call, answers: _Answers) -> tuple[CallResult, ValueTracker]:
        """Return the model's answer to a call on which Python gets these answers, and what was asked."""
        tracker, follower, cloned = ValueTracker(answers), ValueFollower(), call.clone()
        given = cloned.tensors
        recorder = ReadRecorder(cloned, track=tracker.track_read)
        follower.begin(tracker, recorder.taint)
        seed_all(self._target.eager.seed)
        try:
            with torch.no_grad(), recorder, track_functions(), pass_through(follower):
                return CallResult(cloned.run(self._take_copy()), {**given, **cloned.tensors}), tracker
        finally:
            tracker.is_over = True


@dataclass(frozen=True)
class _Asked:
    """What one call gave, and what it asked."""

    answer: CallResult
    tracker: ValueTracker


def _add_one(answers: _Answers, tracker: ValueTracker, known: Container[Question]) -> list[_Answers]:
    """Return these answers with one more, to each question that is not known."""
    new = [question for question in tracker.answers if question not in known and question not in answers]
    return [{**answers, question: other} for question, other in tracker.find_other_answers(new)]
