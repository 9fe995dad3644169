"""Left state: what a call leaves in the model if Python reads another value, and what a later call answers then.

A read that changes nothing in its own call may set a flag or count for later ones, which no graph of a trace shows.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice

from tracehouse.check.flip.answer_search import search_left_state
from tracehouse.check.flip.flip import NOT_FLIPPED, make_replacements
from tracehouse.check.instrumentation.value_reads import ReadRecorder, ValueRead
from tracehouse.check.observe import Observation
from tracehouse.check.oracle import TIMES_MORE
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import Difference
from tracehouse.errors import ModelRaised
from tracehouse.introspection import user_lines

_VALUES_MAX = 16  # of one read; a choice: each costs a call

_World = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class LeftState:
    """How the example is answered after calls that read another value, and the line that reads it."""

    difference: Difference
    line: user_lines.Line


def find_left_state(target: Target, observation: Observation, budget: Budget) -> LeftState | None:
    """Return what changes the answer to the example after calls that read another value; None if nothing was found.

    Nothing that the model raises comes out.
    """
    reads = [read for read in observation.reads if _can_be_replaced(read)]
    if not reads or observation.answer is None or observation.answer.drew:
        return None
    for read, world in _replace_reads(target, reads, observation):
        if budget.is_spent:
            budget.leave_out("what calls leave that read other values, and what later calls answer then")
            return None
        with suppress(Exception, TooSlow):  # submitted code: anything may follow from a value that is not there
            if (difference := _find_change(target, world)) is not None:
                return LeftState(difference, read.line)
    for one in search_left_state(target, reads, observation, budget).changed:
        return LeftState(Difference("output", str(one.difference)), one.read.line)
    return None


def _can_be_replaced(read: ValueRead) -> bool:
    return read.depends_on == "values" and read.in_eager and read.site.kind not in NOT_FLIPPED


def _replace_reads(
    target: Target, reads: Sequence[ValueRead], observation: Observation
) -> Iterator[tuple[ValueRead, _World]]:
    """Yield each read with contexts in which Python reads another value there."""
    for read in reads:
        for replacement in islice(make_replacements(read), _VALUES_MAX):
            yield read, partial(ReadRecorder, target.call, replacement, in_torch=observation.in_torch)


def _find_change(target: Target, world: _World) -> Difference | None:
    """Return how the example's answer changes after one call in this world, or after several; None if it does not."""
    eager, call, within_s = target.eager, target.call, target.single_s
    first = target.example
    left_state = eager.answer(call, within_s=within_s, world=world()).left_state
    # What no mark of the model sees may be left as well, so the example is asked once in any case.
    for times in (0, TIMES_MORE) if left_state else (0,):
        for _ in range(times):
            with suppress(ModelRaised, TooSlow):
                eager.answer_again(call, within_s=within_s, world=world())
        after = "calls that read another value"
        found = eager.find_change(call, first, lambda: eager.answer_again(call), after, target.tolerance)
        if found is not None:
            return found
    return None
