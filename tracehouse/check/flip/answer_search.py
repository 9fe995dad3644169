"""Answer search: what becomes of the model if Python gets other answers to its questions about the values it read.

The search is breadth-first over sets of overridden answers; a set that raised new questions is extended first.
Reads are followed while the model is traced, and the graphs are compared. A read whose errors the model may catch is
followed in the eager model, and the answers are compared: an operator that raises while it is traced ends the process.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tracehouse.check.calls import CallResult
from tracehouse.check.graph_diff.canonical import GraphDivergence, find_divergences
from tracehouse.check.instrumentation.counting_loops import decides_how_often
from tracehouse.check.instrumentation.followed_code import follow_code
from tracehouse.check.instrumentation.model_checks import is_check
from tracehouse.check.instrumentation.tracked_values import Question, ValueTracker, track_functions
from tracehouse.check.instrumentation.value_follower import ValueFollower
from tracehouse.check.instrumentation.value_reads import ReadRecorder, ReadSite, Replay, ValueRead
from tracehouse.check.observe import Observation, enter_both, watch_trace
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget

# The bounds are choices: each set of answers costs a run.
_TOGETHER_MAX = 3  # at most so many answers are overridden in one run
_RUNS_MAX = 60
_LEAVING_RUNS_MAX = 16  # of calls that may leave something; a choice

_NOT_FOLLOWED = "the model does something else while its values are followed"
_COUNTED = "it decides how often a loop repeats"
_FAILED = "an operator fails if Python gets another answer about it"
_TOO_DEEP = "Python asks about it only after too many other questions"
_NO_TIME = "there was no time to try every other answer about it"

Answers = frozenset[tuple[Question, bool]]


@dataclass(frozen=True)
class ChangedAnswer:
    """A read whose overridden answers change the graph or, if the model was not traced, what it answers."""

    read: ValueRead
    divergence: GraphDivergence | None = None
    difference: str | None = None


@dataclass
class AnswerSearchResult:
    """What the search found: reads that matter, and reads that could not be followed to the end, with the reason."""

    changed: list[ChangedAnswer] = field(default_factory=list)
    lost: dict[ReadSite, str] = field(default_factory=dict)


def search_answers(
    target: Target, aside: Sequence[ValueRead], observation: Observation, budget: Budget
) -> AnswerSearchResult:
    """Search while the model is traced. The reads in `aside` are not tracked."""
    follower = ValueFollower()
    run = _TraceRun(target, aside, observation, follower)
    if observation.baseline is None or not run.followed:
        return AnswerSearchResult()
    with follow_code(follower):
        search = _Search(run, budget)
        if search.run():
            return search.result
    search = _Search(_TraceRun(target, aside, observation, None), budget)
    changed = search.result.changed if search.run() else []
    return AnswerSearchResult(changed, dict.fromkeys(run.followed, _NOT_FOLLOWED))


def search_eager_answers(
    target: Target, reads: Sequence[ValueRead], observation: Observation, budget: Budget
) -> AnswerSearchResult:
    """Search while the eager model runs. Only these reads are tracked."""
    follower = ValueFollower()
    with follow_code(follower):
        search = _Search(_EagerRun(target, reads, observation, follower), budget)
        if search.run():
            return search.result
    return AnswerSearchResult([], dict.fromkeys((read.site for read in reads), _NOT_FOLLOWED))


def search_left_state(
    target: Target, reads: Sequence[ValueRead], observation: Observation, budget: Budget
) -> AnswerSearchResult:
    """Search for answers about these reads after which the eager model answers its example otherwise."""
    follower = ValueFollower()
    with follow_code(follower):
        search = _Search(_LeavingRun(target, reads, observation, follower), budget, _LEAVING_RUNS_MAX)
        return search.result if search.run() else AnswerSearchResult()


class _Search:
    """Runs the model with more and more answers overridden, until one run differs or nothing is left to try."""

    def __init__(self, run: "_TraceRun | _EagerRun", budget: Budget, runs_max: int = _RUNS_MAX) -> None:
        self.result = AnswerSearchResult()
        self._runs_max = runs_max
        self._run = run
        self._budget = budget
        self._waiting: deque[Answers] = deque([frozenset()])
        self._tested: set[Answers] = set()
        self._known: dict[Question, ReadSite] = {}
        # The reads whose other answers raised a question: the example alone may never come to it.
        self._above: dict[Question, set[ReadSite]] = {}
        self._failed: set[Question] = set()  # the questions of which another answer led to an error
        self._ended: set[Question] = set()  # the questions of which another answer led to none

    def run(self) -> bool:
        """Whether the model runs as before where its values are only followed; else nothing was found out."""
        while (answers := self._take_next()) is not None:
            tracker = ValueTracker(dict(answers))
            overridden = {question for question, _ in answers}
            try:
                changed = self._run.find_change(tracker)
            except (Exception, TooSlow) as error:  # noqa: BLE001 - anything may follow from an answer that is not true
                changed = None
                if not answers:
                    return False
                if not is_check(error):
                    self._failed |= overridden
            else:
                self._ended |= overridden
            if changed is not None and not answers:
                return False
            self.result.lost |= tracker.lost
            if changed is not None:
                sites = {tracker.reads[question] for question in overridden if question in tracker.reads}
                self.result.changed = [changed(site) for site in sites]
                return True
            self._add_answers(answers, tracker)
        self._note_untested()
        return True

    def _take_next(self) -> Answers | None:
        """Return answers that were not tested yet, which count as tested from now on; None if the search is over."""
        while self._waiting and len(self._tested) < self._runs_max:
            if self._budget.is_spent:
                self._budget.leave_out(
                    "more sets of other answers to what Python asks of the values that it read were not tried"
                )
                return None
            answers = self._waiting.popleft()
            if answers not in self._tested:
                self._tested.add(answers)
                return answers
        return None

    def _add_answers(self, answers: Answers, tracker: ValueTracker) -> None:
        """Put these answers with one more in line."""
        new = [question for question in tracker.answers if question not in self._known]
        above = {self._known[question] for question, _ in answers if question in self._known}
        self._above |= dict.fromkeys(new, above)
        self._known |= {question: tracker.reads[question] for question in new}
        for question in new:
            if decides_how_often(question):
                self._lose(question, _COUNTED)
        if len(answers) == _TOGETHER_MAX:
            for question in new:
                self._lose(question, _TOO_DEEP)
            return
        # Questions that these answers raised come first: they lie behind a branch that was not taken before.
        self._waiting.extendleft(reversed([*_add_one(answers, tracker, new)]))
        self._waiting.extend(_add_one(answers, tracker, [one for one in tracker.answers if one not in new]))

    def _note_untested(self) -> None:
        """Note the reads of which a question never got its other answer, or only errors came of it."""
        if not self._tested:
            self.result.lost |= dict.fromkeys(self._run.followed, _NO_TIME)
        for question in self._failed - self._ended:
            self.result.lost.setdefault(self._known[question], _FAILED)
        tested = {question for answers in self._tested for question, _ in answers}
        for answers in self._waiting:
            for question, _ in answers:
                if question not in tested:
                    self._lose(question, _NO_TIME)

    def _lose(self, question: Question, reason: str) -> None:
        """Note that the read of a question is not followed to the end, nor are those whose other answers raised it."""
        for site in {self._known[question], *self._above[question]}:
            self.result.lost.setdefault(site, reason)


def _add_one(answers: Answers, tracker: ValueTracker, questions: Iterable[Question]) -> Iterator[Answers]:
    """Yield these answers together with one more answer, which one of the questions has not had yet."""
    answered = {question for question, _ in answers}
    new = [question for question in questions if question not in answered]
    return (answers | {other} for other in tracker.find_other_answers(new))


_MakeChange = Callable[[ReadSite], ChangedAnswer]


class _TraceRun:
    """A trace of the example in which values are tracked and, with a follower, followed through the submitted code."""

    def __init__(
        self, target: Target, aside: Sequence[ValueRead], observation: Observation, follower: ValueFollower | None
    ) -> None:
        self.followed = [read.site for read in observation.reads if read.depends_on == "values" and read not in aside]
        self._target = target
        self._aside = aside
        self._observation = observation
        self._follower = follower

    def find_change(self, tracker: ValueTracker) -> _MakeChange | None:
        """Return how the graph differs from the example's, for each read. Raises what tracing raises."""
        observation = self._observation
        unchanged = [Replay(read.site, ()) for read in self._aside]
        recorder = ReadRecorder(self._target.call, *unchanged, in_torch=observation.in_torch, track=tracker.track_read)
        world = _track(tracker, self._follower, recorder)
        graph = watch_trace(self._target, recorder, within_s=observation.retrace_s, world=world)
        assert observation.baseline is not None
        divergences = find_divergences(observation.baseline, graph, limit=1)
        return (lambda site: ChangedAnswer(recorder.reads[site], divergences[0])) if divergences else None


class _EagerRun:
    """A call of the eager model on the example in which these reads are tracked and followed."""

    def __init__(
        self, target: Target, reads: Sequence[ValueRead], observation: Observation, follower: ValueFollower
    ) -> None:
        self.followed = [read.site for read in reads]
        self._target = target
        self._reads = {read.site: read for read in reads}
        self._observation = observation
        self._follower = follower

    def find_change(self, tracker: ValueTracker) -> _MakeChange | None:
        """Return how the answer differs from the example's, for each read. Raises what the model raises."""
        answer = self._answer(tracker)
        assert self._observation.answer is not None
        target = self._target
        effect = target.eager.find_effect(target.call, self._observation.answer, answer, target.tolerance)
        return None if effect is None else lambda site: ChangedAnswer(self._reads[site], difference=effect)

    def _answer(self, tracker: ValueTracker) -> CallResult:
        def track(site: ReadSite, value: object) -> object:
            return tracker.track_read(site, value) if site in self._reads else value

        recorder = ReadRecorder(self._target.call, in_torch=self._observation.in_torch, track=track)
        world = enter_both(recorder, _track(tracker, self._follower, recorder))
        return self._target.eager.answer(self._target.call, within_s=self._target.single_s, world=world)


class _LeavingRun(_EagerRun):
    """Such a call, and then one of the same copy to which Python's own answers are given again."""

    def find_change(self, tracker: ValueTracker) -> _MakeChange | None:
        """Return how the later answer differs from the example's, for each read. Raises what the first call raises."""
        self._answer(tracker)
        eager, call = self._target.eager, self._target.call
        after = "a call that got another answer about a value"
        found = eager.find_change(
            call, self._target.example, lambda: eager.answer_again(call), after, self._target.tolerance
        )
        return None if found is None else lambda site: ChangedAnswer(self._reads[site], difference=found.what)


@contextmanager
def _track(tracker: ValueTracker, follower: ValueFollower | None, recorder: ReadRecorder) -> Iterator[None]:
    """In the body, values that are read are tracked; after it, whatever still holds them gets true answers alone."""
    if follower is not None:
        follower.begin(tracker, recorder.taint)
    try:
        with track_functions():
            yield
    finally:
        tracker.is_over = True
