"""Answers: what a trace becomes where Python is told otherwise of the values that were read, of one or of several."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tracehouse.check.graph_diff.canonical import Canonical, GraphDivergence, difference
from tracehouse.check.instrumentation.tracked_values import (
    Question,
    ValueTracker,
    track_conversions,
    track_functions,
)
from tracehouse.check.instrumentation.value_reads import ReadRecorder, Replay, ValueRead
from tracehouse.check.observe import Observation, watched_trace
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget

_TOGETHER_MAX = 3  # answers that are others at once
_TRACES_MAX = 60

_Worlds = Sequence[Callable[[], AbstractContextManager[None]]]
Answers = frozenset[tuple[Question, bool]]


def search_answers(
    target: Target, aside: Sequence[ValueRead], observation: Observation, budget: Budget
) -> list[tuple[ValueRead, GraphDivergence]]:
    """The reads of which other answers make another graph, several only together; none where it is the same for all.

    Those that are `aside` are left as they are.
    """
    for worlds in ((track_functions, track_conversions), (track_functions,)):
        found = _parted(target, aside, observation, budget, worlds)
        if found is not None:
            return found
    return []


def _parted(
    target: Target, aside: Sequence[ValueRead], observation: Observation, budget: Budget, worlds: _Worlds
) -> list[tuple[ValueRead, GraphDivergence]] | None:
    """None where that values are followed makes another graph by itself, or none."""
    waiting: deque[Answers] = deque([frozenset()])
    tried: set[Answers] = set()
    known: set[Question] = set()
    while waiting and len(tried) < _TRACES_MAX and observation.baseline is not None:
        if budget.is_spent:
            budget.leave_out("other answers of what is read, several of them together")
            break
        answers = waiting.popleft()
        if answers in tried:
            continue
        tried.add(answers)
        tracker = ValueTracker(dict(answers))
        reading = _reading(target, aside, tracker, observation)
        graph = _traced(target, reading, observation, worlds)
        parted = difference(observation.baseline, graph, limit=1) if graph is not None else []
        if not answers and (graph is None or parted):
            return None
        if graph is None:
            continue
        if parted:
            sites = {tracker.reads[question] for question, _ in answers}
            return [(reading.reads[site], parted[0]) for site in sites]
        if len(answers) < _TOGETHER_MAX:
            new = [question for question in tracker.answers if question not in known]
            known.update(new)
            waiting.extendleft(reversed([*_with_one_more(answers, tracker, new)]))
            waiting.extend(_with_one_more(answers, tracker, [one for one in tracker.answers if one not in new]))
    return []


def _with_one_more(answers: Answers, tracker: ValueTracker, questions: Iterable[Question]) -> Iterator[Answers]:
    """With another answer than it was to one of the questions."""
    given = {question for question, _ in answers}
    for question in questions:
        for other in (True, False):
            if question not in given and tracker.answers.get(question, {other}) != {other}:
                yield answers | {(question, other)}


def _reading(
    target: Target, aside: Sequence[ValueRead], tracker: ValueTracker, observation: Observation
) -> ReadRecorder:
    unchanged = [Replay(read.site, ()) for read in aside]
    return ReadRecorder(target.call, *unchanged, in_torch=observation.in_torch, track=tracker.track_read)


def _traced(target: Target, reading: ReadRecorder, observation: Observation, worlds: _Worlds) -> Canonical | None:
    try:
        return watched_trace(target, reading, within_s=observation.within_s, world=_together(worlds))
    except (Exception, TooSlow):  # noqa: BLE001 - submitted code: anything may follow from an answer that is not true
        return None


@contextmanager
def _together(worlds: _Worlds) -> Iterator[None]:
    with ExitStack() as stack:
        for world in worlds:
            stack.enter_context(world())
        yield
