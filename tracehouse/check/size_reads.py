"""Size reads: the values that the model reads at other sizes, where calls agree and nothing is proven.

A call shows nothing of other values. Where Python asks about a value, other ones may lead to another answer, also at
sizes at which the question comes up for the first time: there neither flips nor the proof have asked it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.graphs.size_tests import SizeTest
from tracehouse.check.instrumentation.followed_code import Follower, follow_code
from tracehouse.check.instrumentation.value_reads import ReadRecorder, ReadSite
from tracehouse.check.observe import watch_trace
from tracehouse.check.prove import data_sizes
from tracehouse.check.prove.model_copies import ModelCopies
from tracehouse.check.prove.value_questions import ValueQuestions
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.contract.dims import format_sizes
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call

_LEAST_S = 0.05


def find_sizes_decided_by_values(
    target: Target, tests: Iterable[SizeTest], known: Collection[ReadSite], budget: Budget
) -> list[Mapping[str, int]]:
    """Return the sizes of these tests at which another answer about a value that the model reads changes its result.

    So may one about a size that follows from values, if it is read at none of the `known` sites: the example's trace
    was not asked there. Where there is no time to ask, a size counts as one of them if values decide at another of the
    sizes.
    """
    by_sizes = {format_sizes(test.sizes): test for test in tests}
    if not by_sizes or target.reads_values_anew:
        return []
    ordered = sorted(by_sizes.values(), key=_count_elements, reverse=True)
    decided, undecided, left = _ask_values(target, ordered, budget)
    for test in undecided:
        if budget.is_spent:
            left.append(test.sizes)
        elif _reads_size(target, test.call, known, budget):
            decided.append(test.sizes)
    if left:
        others = f" and {len(left) - 1} more sizes" if len(left) > 1 else ""
        budget.leave_out(f"whether values that the model reads decide at {format_sizes(left[0])}{others}")
    return [*decided, *left] if decided else []


def _ask_values(
    target: Target, tests: Iterable[SizeTest], budget: Budget
) -> tuple[list[Mapping[str, int]], list[SizeTest], list[Mapping[str, int]]]:
    """Return the sizes at which values decide, the tests at which they do not, and the sizes without time to ask."""
    decided: list[Mapping[str, int]] = []
    undecided: list[SizeTest] = []
    left: list[Mapping[str, int]] = []
    questions = ValueQuestions(target, ModelCopies(target).take)
    try:
        with follow_code(Follower()):
            for test in tests:
                if budget.is_spent:
                    left.append(test.sizes)
                elif _is_decided(questions, test.call, budget):
                    decided.append(test.sizes)
                else:
                    undecided.append(test)
    finally:
        target.model.shared.restore()
    return decided, undecided, left


def _is_decided(questions: ValueQuestions, call: Call, budget: Budget) -> bool:
    try:
        with time_limit(max(_LEAST_S, budget.left_by_the_clock_s)):
            return questions.find_deciding(call) is not None
    except TooSlow:
        return True
    except Exception:  # noqa: BLE001 - submitted code: a model that traces functions itself does not get through a mode
        return False


def _reads_size(target: Target, call: Call, known: Collection[ReadSite], budget: Budget) -> bool:
    """Whether a trace of the call reads a size that follows from values at another site than those known.

    The eager model has a number there, which nobody can follow.
    """
    within_s = max(_LEAST_S, budget.left_by_the_clock_s)
    watcher = _DataSizeWatcher()  # type: ignore[no-untyped-call]
    try:
        target.eager.answer(call, within_s=within_s, world=watcher)
        if not watcher.has_seen:
            return False
        reading = ReadRecorder(call)
        watch_trace(target, reading, call, within_s=within_s)
    except (Exception, TooSlow):  # noqa: BLE001 - submitted code: anything may come out of it
        return watcher.has_seen
    return any(read.depends_on == "values" and site not in known for site, read in reading.reads.items())


class _DataSizeWatcher(TorchDispatchMode):
    """Notes whether an operator runs of which values decide how large its result is."""

    has_seen = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.has_seen |= data_sizes.decides_size(func, args)
        return func(*args, **(kwargs or {}))


def _count_elements(test: SizeTest) -> int:
    return sum(tensor.numel() for tensor in test.call.tensors.values())
