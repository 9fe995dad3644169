"""Answer search: whether the graph changes if Python gets other answers to its questions about the values it read.

The search is breadth-first over sets of overridden answers; a set that raised new questions is extended first. Each set
costs one trace.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tracehouse.check.graph_diff.canonical import CanonicalGraph, GraphDivergence, find_divergences
from tracehouse.check.instrumentation.tracked_values import (
    Question,
    ValueTracker,
    track_conversions,
    track_functions,
)
from tracehouse.check.instrumentation.value_reads import ReadRecorder, Replay, ValueRead
from tracehouse.check.observe import Observation, watch_trace
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget

# The bounds are choices: each set of answers costs a trace.
_TOGETHER_MAX = 3  # at most so many answers are overridden in one trace
_TRACES_MAX = 60

_Worlds = Sequence[Callable[[], AbstractContextManager[None]]]
Answers = frozenset[tuple[Question, bool]]


def search_answers(
    target: Target, aside: Sequence[ValueRead], observation: Observation, budget: Budget
) -> list[tuple[ValueRead, GraphDivergence]]:
    """Return the reads whose overridden answers, alone or together, change the graph, each with the first difference.

    The search ends at the first change, and returns nothing if it finds none. The reads in `aside` are not tracked.
    Sets of answers for which the budget leaves no time are left out.
    """
    for worlds in ((track_functions, track_conversions), (track_functions,)):
        reads = _search_in(target, aside, observation, budget, worlds)
        if reads is not None:
            return reads
    return []


def _search_in(
    target: Target, aside: Sequence[ValueRead], observation: Observation, budget: Budget, worlds: _Worlds
) -> list[tuple[ValueRead, GraphDivergence]] | None:
    """Search with values tracked inside `worlds`; None if tracking alone changes the graph, or prevents a trace."""
    waiting: deque[Answers] = deque([frozenset()])
    tested: set[Answers] = set()
    known: set[Question] = set()
    while waiting and len(tested) < _TRACES_MAX and observation.baseline is not None:
        if budget.is_spent:
            budget.leave_out("more sets of other answers to what Python asks of the values that it read were not tried")
            break
        answers = waiting.popleft()
        if answers in tested:
            continue
        tested.add(answers)
        tracker = ValueTracker(dict(answers))
        recorder = _make_recorder(target, aside, tracker, observation)
        graph = _trace(target, recorder, observation, worlds)
        divergences = find_divergences(observation.baseline, graph, limit=1) if graph is not None else []
        if not answers and (graph is None or divergences):
            return None
        if graph is None:
            continue
        if divergences:
            sites = {tracker.reads[question] for question, _ in answers}
            return [(recorder.reads[site], divergences[0]) for site in sites]
        if len(answers) < _TOGETHER_MAX:
            new = [question for question in tracker.answers if question not in known]
            known.update(new)
            # Questions that these answers raised come first: they lie behind a branch that was not taken before.
            waiting.extendleft(reversed([*_add_one(answers, tracker, new)]))
            waiting.extend(_add_one(answers, tracker, [one for one in tracker.answers if one not in new]))
    return []


def _add_one(answers: Answers, tracker: ValueTracker, questions: Iterable[Question]) -> Iterator[Answers]:
    """Yield these answers together with one more answer, which one of the questions has not had yet."""
    answered = {question for question, _ in answers}
    for question in questions:
        for other in (True, False):
            if question not in answered and tracker.answers.get(question, {other}) != {other}:
                yield answers | {(question, other)}


def _make_recorder(
    target: Target, aside: Sequence[ValueRead], tracker: ValueTracker, observation: Observation
) -> ReadRecorder:
    unchanged = [Replay(read.site, ()) for read in aside]
    return ReadRecorder(target.call, *unchanged, in_torch=observation.in_torch, track=tracker.track_read)


def _trace(target: Target, recorder: ReadRecorder, observation: Observation, worlds: _Worlds) -> CanonicalGraph | None:
    try:
        return watch_trace(target, recorder, within_s=observation.retrace_s, world=_enter_all(worlds))
    except (Exception, TooSlow):  # noqa: BLE001 - submitted code: anything may follow from an answer that is not true
        return None


@contextmanager
def _enter_all(worlds: _Worlds) -> Iterator[None]:
    with ExitStack() as stack:
        for world in worlds:
            stack.enter_context(world())
        yield
