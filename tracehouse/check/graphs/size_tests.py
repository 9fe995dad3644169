"""Size tests: the artifact is compared with the eager model at other sizes than the example's."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import torch

from tracehouse.check.calls import CallResult, call_artifact
from tracehouse.check.graphs.choose_sizes import choose_corners, choose_single_sizes
from tracehouse.check.inputs.patterned_calls import keep_patterns
from tracehouse.check.inputs.value_changes import WITNESS_CHANGES, Change
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.dims import format_sizes
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error
from tracehouse.errors import LimitExceeded, ModelRaised
from tracehouse.spec.trace_spec import WantedSizes
from tracehouse.tensors.tensor import TensorSpec
from tracehouse.torch_values.compare import compare
from tracehouse.torch_values.resizing import is_mask

# agrees, differs and raised: what the artifact did. refused and too-slow: what eager did, which is no fault of the
# trace. no-memory: the call was not made, or not ended, because memory is too short. unsure: eager gives two different
# answers to the call, for instance if an operator reads memory past its end.
Outcome = Literal["agrees", "differs", "raised", "refused", "too-slow", "no-memory", "unsure"]

# A symbol counts as baked after so many sizes at which the artifact is wrong, and none at which it agrees. A choice:
# more calls would only repeat the finding.
_WRONG_MAX = 3
# Before a proof is tried, a symbol is called at sizes until the artifact agrees at so many. Chosen.
_AGREES_MIN = 2
# So many sizes are called on all of the witnesses' values. Chosen.
_SEARCHED_SIZES_MAX = 16
# A difference that is at most so many times as large as eager's own error shows nothing on values that are chosen to
# make it large. Chosen, above the multipliers of three runs.
_INEXACT = 10.0
# So many draws of values are looked at where rounding decides. Measured on a right model that computes a mean and a
# spread by two operators for one: about 1 call of 300 differs by chance.
_DRAWS = 3
_TOO_LARGE_SHOWN = 5  # sizes that do not fit into memory are named one by one, up to so many
_SHRINK = 0.13  # each further draw has values so much smaller, so that all are rounded otherwise; chosen
_FIRST_TESTS = 2  # after so many tests, the example is asked again in any case; chosen


@dataclass(frozen=True)
class SizeTest:
    """One call at these sizes by symbol: its outcome, and the error of the model that raised."""

    sizes: Mapping[str, int]
    call: Call
    outcome: Outcome
    difference: Difference | None = None
    largest: float | None = None  # the largest difference of two values, if the artifact differs and it can be told
    error: Exception | None = None
    aftereffect: Difference | None = None  # how the call changes what eager answers to the example
    outputs: Sequence[TensorSpec] = ()  # shapes and datatypes of eager's outputs, if the artifact agrees
    differs_by_rounding: bool = False  # whether the artifact differs by more rounding than eager has, and by no more

    @property
    def agrees(self) -> bool:
        """Whether the artifact answers as the eager model does."""
        return self.outcome == "agrees"

    @property
    def is_wrong(self) -> bool:
        """Whether eager answers, and the artifact answers differently or raises."""
        return self.outcome in ("differs", "raised")

    def changed_symbols(self, groups: Groups) -> tuple[str, ...]:
        """Return the symbols that have another size than in the example."""
        return tuple(symbol for symbol, size in self.sizes.items() if size != groups.example[symbol])


def _nothing_is_settled(_: Mapping[str, int]) -> bool:
    return False


def run_first_size_tests(
    target: Target,
    groups: Groups,
    wanted: Mapping[str, WantedSizes],
    budget: Budget,
    is_settled: Callable[[Mapping[str, int]], bool] = _nothing_is_settled,
) -> list[SizeTest]:
    """Compare at sizes of one symbol after the other until the artifact agrees at enough, and return the tests.

    The calls at these sizes on which it was found right before are not made again, nor are those of all sizes that are
    settled. `wanted` limits the sizes of the symbols that it names. Sizes for which the budget leaves no time are left
    out.
    """
    samples = [*choose_single_sizes(groups, wanted)]
    agreed = {format_sizes(test.sizes): test for test in _list_agreed(groups, samples)}
    found = Counter(test.changed_symbols(groups) for test in agreed.values())
    tester = _SizeTester(target, groups, budget)
    for sizes in samples:
        full = {**groups.example, **sizes}
        is_known = format_sizes(full) in agreed or is_settled(full)
        if not is_known and not tester.agrees_often_at(sizes, found[tuple(sizes)]):
            tester.run(sizes)
    tester.report_omissions()
    return [*agreed.values(), *tester.tests]


def _list_agreed(groups: Groups, samples: Sequence[Mapping[str, int]]) -> Iterator[SizeTest]:
    """Yield the calls at one of these sizes on which the artifact was found right while the groups were searched."""
    chosen = [{**groups.example, **sizes} for sizes in samples]
    for call, outputs in groups.agreed:
        sizes = groups.sizes_of(call)
        if sizes is not None and sizes in chosen:
            yield SizeTest(sizes, call, "agrees", outputs=outputs)


def run_size_tests(
    target: Target,
    groups: Groups,
    wanted: Mapping[str, WantedSizes],
    budget: Budget,
    *,
    known: Sequence[SizeTest] = (),
    is_settled: Callable[[Mapping[str, int]], bool] = _nothing_is_settled,
) -> list[SizeTest]:
    """Compare at sizes of one symbol after the other, then of several together, and return the tests in that order.

    `wanted` limits the sizes of the symbols that it names. The `known` tests are not made again, nor are those of all
    sizes that are settled. Sizes for which the budget leaves no time are left out.
    """
    tester = _SizeTester(target, groups, budget, known)
    for sizes in choose_single_sizes(groups, wanted):
        if not is_settled({**groups.example, **sizes}):
            tester.run(sizes)
    for sizes in choose_corners(groups, tester.agreeing_single_sizes()):
        if not is_settled({**groups.example, **sizes}):
            tester.run(sizes)
    tester.report_omissions()
    return tester.tests[len(known) :]


def run_size_tests_at(
    target: Target, groups: Groups, samples: Iterable[Mapping[str, int]], budget: Budget
) -> list[SizeTest]:
    """Compare at these sizes, and return the tests. A symbol that a sample does not name has the example's size.

    Sizes for which the budget leaves no time are left out.
    """
    tester = _SizeTester(target, groups, budget)
    for sizes in samples:
        tester.run(sizes)
    tester.report_omissions()
    return tester.tests


def run_witnesses_at(
    target: Target, groups: Groups, samples: Iterable[Mapping[str, int]], budget: Budget
) -> list[SizeTest]:
    """Compare at these sizes on values that show what numbers rounded otherwise and branches on values come to.

    The sizes after the first `_SEARCHED_SIZES_MAX` are compared on the values on which one of those differs.
    """
    tester = _SizeTester(target, groups, budget)
    changes, samples = [change for _, change in WITNESS_CHANGES], list(samples)
    for sizes in samples[:_SEARCHED_SIZES_MAX]:
        for change in changes:
            tester.run_changed(sizes, change)
    differing = [change for change in changes if tester.has_differed_on(change)]
    for sizes in samples[_SEARCHED_SIZES_MAX:]:
        for change in differing:
            tester.run_changed(sizes, change)
    tester.report_omissions()
    return tester.tests


def run_calls(
    target: Target, groups: Groups, calls: Iterable[tuple[Mapping[str, int], Call]], budget: Budget
) -> list[SizeTest]:
    """Compare on these calls, each of which has these sizes."""
    tester = _SizeTester(target, groups, budget)
    return [tester.test(sizes, call) for sizes, call in calls]


def compare_call(target: Target, groups: Groups, call: Call, budget: Budget) -> SizeTest:
    """Compare on one call of the example's sizes."""
    return _SizeTester(target, groups, budget).test(groups.example, call)


class _SizeTester:
    """Makes calls of other sizes, each once."""

    def __init__(self, target: Target, groups: Groups, budget: Budget, known: Sequence[SizeTest] = ()) -> None:
        self.tests: list[SizeTest] = [*known]
        self._target = target
        self._groups = groups
        self._budget = budget
        self._differing_changes: set[Change] = set()
        self._too_large: dict[str, str] = {}  # sizes that do not fit into memory, and why
        self._omitted: dict[str, None] = {}  # symbols for which there was no time, in their order

    def run(self, sizes: Mapping[str, int]) -> None:
        full = {**self._groups.example, **sizes}
        if any(test.sizes == full for test in self.tests) or self._is_known_as_baked(sizes):
            return
        if not self._groups.is_affordable(self._target.call, sizes):
            return
        if self._budget.is_spent:
            self._omitted |= dict.fromkeys(sizes)
            return
        self.tests.append(self._test_on_draws(full))

    def run_changed(self, sizes: Mapping[str, int], change: Change) -> None:
        """Compare on the values of a call of these sizes, changed."""
        full = {**self._groups.example, **sizes}
        if not self._groups.is_affordable(self._target.call, sizes):
            return
        if self._budget.is_spent:
            self._omitted |= dict.fromkeys(sizes)
            return
        test = self._test_on_draws(full, change)
        if test.is_wrong:
            self._differing_changes.add(change)
        self.tests.append(test)

    def _test_on_draws(self, sizes: Mapping[str, int], change: Change | None = None) -> SizeTest:
        """Compare on drawn values. Rounding counts as an error if it does so on another draw too."""
        test = self.test(sizes, self._draw(sizes, change, 0))
        if test.is_wrong and change is not None and self._is_as_inexact(test, change):
            return replace(test, outcome="unsure")
        if not test.differs_by_rounding:
            return test
        again = [self.test(sizes, self._draw(sizes, change, draw)) for draw in range(1, _DRAWS)]
        if any(one.is_wrong for one in again):
            return test
        return next((one for one in again if one.agrees), test)

    def _draw(self, sizes: Mapping[str, int], change: Change | None, draw: int) -> Call:
        call = self._groups.resize(self._target.call, sizes, self._target.seed + len(self.tests))
        call = call.changed(_shrink(1 - draw * _SHRINK)) if draw else call
        return call if change is None else call.changed(change)

    def has_differed_on(self, change: Change) -> bool:
        """Whether the artifact was wrong on values that were changed so."""
        return change in self._differing_changes

    def _is_as_inexact(self, test: SizeTest, change: Change) -> bool:
        """Whether eager's own answers are about as inexact as the two differ, so that the difference shows nothing.

        By luck its answer to one draw may be exact, so other draws count too, where it answers them.
        """
        own = self._own_error(test.call)
        if own is None or test.largest is None:
            return own is None
        others = (self._own_error(self._draw(test.sizes, change, draw)) for draw in range(1, _DRAWS))
        return any(one is not None and _INEXACT * one >= test.largest for one in chain([own], others))

    def _own_error(self, call: Call) -> float | None:
        """Return how far off eager's own answer may be; None if it cannot be told.

        Where float64 tells nothing, as of a model in float64, it is how much the last bits of the inputs change.
        """
        target = self._target
        is_double = any(tensor.dtype == torch.float64 for tensor in call.tensors.values())
        try:
            answer = target.eager.answer(call, within_s=target.call_s)
            own = None if is_double else target.eager.rounding_of(call, answer)
            if own is not None:
                return own
            nudged = target.eager.answer(call.changed(_nudge), within_s=target.call_s)
        except (ModelRaised, TooSlow):
            return None
        return compare(answer.outputs, nudged.outputs, target.tolerance).largest

    def _has_no_room(self, sizes: Mapping[str, int], call: Call) -> bool:
        """Whether memory is too short for this call, which is then reported as left out."""
        why = self._target.eager.memory.why_no_call(call)
        if why is not None:
            self._too_large.setdefault(format_sizes(sizes), why)
        return why is not None

    def report_omissions(self) -> None:
        for sizes, why in [*self._too_large.items()][:_TOO_LARGE_SHOWN]:
            self._budget.leave_out(f"a call of {sizes}: {why}")
        if (more := len(self._too_large) - _TOO_LARGE_SHOWN) > 0:
            self._budget.leave_out(f"calls of {more} more sizes, for lack of memory")
        if self._omitted:
            self._budget.leave_out(f"more sizes of {', '.join(self._omitted)} were not tried")

    def agreeing_single_sizes(self) -> list[tuple[str, int]]:
        """Return the symbols that changed alone, with each size at which the artifact agrees."""
        changed = [(test, test.changed_symbols(self._groups)) for test in self.tests if test.agrees]
        return [(symbols[0], test.sizes[symbols[0]]) for test, symbols in changed if len(symbols) == 1]

    def _is_known_as_baked(self, sizes: Mapping[str, int]) -> bool:
        """Whether these are sizes of one symbol that was wrong in each of enough tests."""
        if len(sizes) != 1:
            return False
        tests = self._tests_of(sizes)
        return sum(test.is_wrong for test in tests) >= _WRONG_MAX and not any(test.agrees for test in tests)

    def agrees_often_at(self, sizes: Mapping[str, int], before: int) -> bool:
        """Whether the artifact agrees at enough sizes of these symbols alone, with those `before`."""
        return before + sum(test.agrees for test in self._tests_of(sizes)) >= _AGREES_MIN

    def _tests_of(self, sizes: Mapping[str, int]) -> list[SizeTest]:
        """Return the tests in which these symbols alone have other sizes than the example's."""
        return [test for test in self.tests if test.changed_symbols(self._groups) == tuple(sizes)]

    def test(self, sizes: Mapping[str, int], call: Call) -> SizeTest:
        """Compare on one call, which has these sizes; if it is refused, with the patterns of the example's values."""
        tested = self._test(sizes, call)
        kept = keep_patterns(self._target.call, call) if tested.outcome == "refused" else None
        if kept is None:
            return tested
        again = self._test(sizes, kept)
        return tested if again.outcome in ("refused", "too-slow", "no-memory") else again

    def _test(self, sizes: Mapping[str, int], call: Call) -> SizeTest:
        if self._has_no_room(sizes, call):
            return SizeTest(sizes, call, "no-memory")
        try:
            return self._compare(sizes, call)
        except LimitExceeded as error:
            self._too_large.setdefault(format_sizes(sizes), error.detail)
            return SizeTest(sizes, call, "no-memory", error=error)

    def _compare(self, sizes: Mapping[str, int], call: Call) -> SizeTest:
        """Raises LimitExceeded if memory runs out."""
        target = self._target
        try:
            eager = target.eager.answer(
                call, within_s=min(target.call_s, max(self._budget.left_s, CALL_LIMITS.resized_least_s))
            )
        except ModelRaised as error:
            return SizeTest(sizes, call, "refused", error=error)
        except TooSlow:
            return SizeTest(sizes, call, "too-slow")
        aftereffect = self._find_aftereffect(call, eager)
        try:
            artifact = call_artifact(target.artifact, call, target.eager.seed)
        except Exception as error:
            if is_out_of_memory(error):
                raise out_of_memory_error(error) from error
            return SizeTest(sizes, call, "raised", error=error, aftereffect=aftereffect)
        compared = target.eager.compare(call, eager, artifact, target.tolerance)
        if compared.agrees:
            return SizeTest(sizes, call, "agrees", aftereffect=aftereffect, outputs=eager.output_specs)
        if not target.eager.is_repeatable(call, eager, tolerance=target.tolerance, within_s=target.call_s):
            return SizeTest(sizes, call, "unsure")
        return SizeTest(
            sizes,
            call,
            "differs",
            compared.difference,
            compared.largest,
            aftereffect=aftereffect,
            differs_by_rounding=compared.differs_by_rounding,
        )

    def _find_aftereffect(self, call: Call, eager: CallResult) -> Difference | None:
        """Return how the call that eager just answered changes its answer to the example, once or several times.

        None where the call left no state, or an earlier test has an aftereffect already. The first tests look for one
        in any case: state may be where no mark of the model sees it.
        """
        target = self._target
        is_first = len(self.tests) < _FIRST_TESTS
        if any(test.aftereffect for test in self.tests) or not (eager.left_state or is_first):
            return None
        try:
            found = self._find_change_now("a call of other sizes")
            if found is None and eager.left_state and target.eager.ask_on(call, within_s=target.call_s):
                found = self._find_change_now("several calls of other sizes")
        except TooSlow:
            return None
        if found is None or eager.left_state:
            return found
        is_repeatable = target.eager.is_repeatable(
            target.call, target.example, tolerance=target.tolerance, within_s=target.call_s
        )
        return found if is_repeatable else None

    def _find_change_now(self, after: str) -> Difference | None:
        """Return how the copy that answered last answers the example otherwise than a new one. Raises TooSlow."""
        target = self._target
        return target.eager.find_change(
            target.call,
            target.example,
            lambda: target.eager.answer_again(target.call, within_s=target.call_s),
            after,
            target.tolerance,
        )


def _shrink(factor: float) -> Change:
    """Return a change of floats to so many times their value; a mask stays as it is."""

    def shrink(tensor: torch.Tensor) -> torch.Tensor:
        return tensor * factor if tensor.is_floating_point() and not is_mask(tensor) else tensor.clone()

    return shrink


def _nudge(tensor: torch.Tensor) -> torch.Tensor:
    """Change the last bit of every second float."""
    if not tensor.is_floating_point():
        return tensor.clone()
    places = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
    return torch.where(places % 2 == 0, tensor * (1 + torch.finfo(tensor.dtype).eps), tensor)
