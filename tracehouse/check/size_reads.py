"""Size reads: the values that the model reads at other sizes, where calls agree and nothing is proven.

A call shows nothing of other values. Where Python asks about a value, other ones may lead to another answer, also at
sizes at which the question comes up for the first time: there neither flips nor the proof have asked it.
"""

from collections.abc import Iterable, Mapping

from tracehouse.check.graphs.size_tests import SizeTest
from tracehouse.check.instrumentation.followed_code import Follower, follow_code
from tracehouse.check.prove.model_copies import ModelCopies
from tracehouse.check.prove.value_questions import ValueQuestions
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.contract.dims import format_sizes
from tracehouse.differential.budget import Budget

_LEAST_S = 0.05


def find_sizes_decided_by_values(target: Target, tests: Iterable[SizeTest], budget: Budget) -> list[Mapping[str, int]]:
    """Return the sizes of these tests at which another answer about a value that the model reads changes its result.

    Where there is no time to ask, a size counts as one of them if values decide at another of the sizes.
    """
    by_sizes = {format_sizes(test.sizes): test for test in tests}
    if not by_sizes or target.form in ("scripted", "uploaded"):  # a compiled artifact reads anew, as the model does
        return []
    decided: list[Mapping[str, int]] = []
    left: list[Mapping[str, int]] = []
    questions = ValueQuestions(target, ModelCopies(target).take)
    try:
        with follow_code(Follower()):
            for test in sorted(by_sizes.values(), key=_count_elements, reverse=True):
                if budget.is_spent:
                    left.append(test.sizes)
                elif _is_decided(questions, test, budget):
                    decided.append(test.sizes)
    finally:
        target.model.shared.restore()
    for sizes in left:
        budget.leave_out(f"whether values that the model reads decide at {format_sizes(sizes)}")
    return [*decided, *left] if decided else []


def _is_decided(questions: ValueQuestions, test: SizeTest, budget: Budget) -> bool:
    try:
        with time_limit(max(_LEAST_S, budget.left_by_the_clock_s)):
            return questions.find_deciding(test.call) is not None
    except TooSlow:
        return True
    except Exception:  # noqa: BLE001 - submitted code: a model that traces functions itself does not get through a mode
        return False


def _count_elements(test: SizeTest) -> int:
    return sum(tensor.numel() for tensor in test.call.tensors.values())
