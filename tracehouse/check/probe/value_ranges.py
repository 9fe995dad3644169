"""Value ranges: the integers that the eager model accepts, such as the ids of a vocabulary.

The search for a bound tries the sizes of weights first, then doubles its steps and bisects (Bentley and Yao, 1976). A
bound is claimed only if it is the model's own: the model raises beyond it and not before it, wherever in the input the
integer stands, at other sizes, and beside other values. If that is not certain, nothing is claimed.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

import torch

from tracehouse.check.calls import CallResult, call_artifact, call_model
from tracehouse.check.inputs.probes import generate_probes
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.input_spec import ValueRange
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.case_names import name_probe
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import is_out_of_memory
from tracehouse.errors import ModelRaised, ServiceError
from tracehouse.introspection import script_graphs

_DTYPES = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
# Operators of torch that do not check their integers, and read or write beyond their memory if one is too large.
_UNCHECKED_OPERATORS = ("ctc_loss", "_pack_padded_sequence", "embedding_bag", "segment_reduce")
# Other operators of these libraries check their integers. Nothing is known of other libraries.
_CHECKING_LIBRARIES = ("aten::", "prim::", "mkldnn::", "onednn::")
# A loop in C that runs as often as an integer says can't be stopped. So these integers are tried before the datatype's
# last one: if the model takes long on them, the search ends. They are a choice.
_WAYPOINTS = (2**20, 2**26)
# Words in torch's errors that complain about memory, and not about a value.
_TOO_LARGE_WORDS = ("overflow", "allocat", "out of memory")
# The bounds of the search are choices.
_HINTS_MAX = 64  # so many sizes of weights are taken for likely bounds
_OTHER_SIZES, _OTHER_VALUES = 2, 3  # a bound is confirmed on so many calls of other sizes, and with other values


@dataclass(frozen=True)
class ValueRangeResult:
    """The integers that a method is known to accept, by the paths of its inputs.

    `ranges` has what the contract may claim. `bounds` has the smallest and the largest accepted integer, which are the
    datatype's if the model sets no own bound. `differing` are named calls that the eager model accepts and the artifact
    answers differently.
    """

    ranges: dict[str, ValueRange] = field(default_factory=dict)
    bounds: dict[str, tuple[int, int]] = field(default_factory=dict)
    differing: list[tuple[str, Call]] = field(default_factory=list)


def find_value_ranges(target: Target, groups: Groups | None, budget: Budget) -> ValueRangeResult:
    """Return the ranges of all inputs of integers; no range if a wrong integer could crash the process.

    The eager model must accept the example. Inputs for which the budget leaves no time have no range. Nothing that the
    model raises comes out.
    """
    result = ValueRangeResult()
    paths = [path for path, tensor in target.call.tensors.items() if _may_have_a_range(tensor)]
    if not paths or _may_crash(target):
        return result
    tester = _ValueTester(target, groups, budget)
    for place, path in enumerate(paths):
        with suppress(_NoDecision):
            _find_range(tester, path, result)
        if budget.is_spent:
            budget.leave_out(f"the range of the integers in {', '.join(map(repr, paths[place:]))} was not searched for")
            return result
    return result


def _may_have_a_range(tensor: torch.Tensor) -> bool:
    """Whether an input can have a range. It can't on a GPU, because an index out of range ends the process there."""
    return tensor.dtype in _DTYPES and tensor.numel() > 0 and tensor.device.type == "cpu"


def _may_crash(target: Target) -> bool:
    """Whether the artifact has an operator that may not check its integers."""
    compiled = script_graphs.methods(target.artifact).get(target.method)
    if compiled is None:
        return True
    every = [compiled.inlined_graph, *(function for function in script_graphs.functions(compiled.inlined_graph))]
    kinds = {node.kind() for graph in every for node in script_graphs.nodes(graph)}
    return any(not kind.startswith(_CHECKING_LIBRARIES) or kind.endswith(_UNCHECKED_OPERATORS) for kind in kinds)


class _NoDecision(Exception):
    """It stays unknown whether an integer is accepted: the model took too long or too much memory, or time ran out."""


class _ValueTester:
    """Tests whether the eager model accepts a call.

    It calls one copy of the model again and again, which is cheap. `check` tests whether that copy still works.
    """

    def __init__(self, target: Target, groups: Groups | None, budget: Budget) -> None:
        self.target = target
        self.groups = groups
        self._budget = budget
        self._module = target.model.copy_module()
        self._within_s = CALL_LIMITS.integers.seconds

    def check(self) -> None:
        """Measure how long the copy takes for the example. Raises _NoDecision if it no longer accepts it."""
        started = time.monotonic()
        if not self.accepts(self.target.call):
            raise _NoDecision
        self._within_s = CALL_LIMITS.integers.after(time.monotonic() - started)

    def accepts(self, call: Call) -> bool:
        """Whether the model answers a call and does not raise. Raises _NoDecision if it takes too long to tell."""
        seed = self.target.eager.seed
        return self._run(lambda within_s: call_model(self._module, call, seed, within_s=within_s)) is not None

    def agrees(self, call: Call) -> bool | None:
        """Whether the artifact answers as an unchanged copy of the model does; None if that copy raises.

        Raises _NoDecision if the copy takes too long, or one of them too much memory.
        """
        eager = self._run(lambda within_s: self.target.eager.answer(call, within_s=within_s))
        if eager is None:
            return None
        try:
            answer = call_artifact(self.target.artifact, call, self.target.eager.seed)
        except Exception as error:
            if is_out_of_memory(error):
                raise _NoDecision from error
            return False
        return self.target.eager.compare(call, eager, answer, self.target.tolerance).agrees

    def _run(self, run: Callable[[float], CallResult]) -> CallResult | None:
        """Return the answer of `run`, which gets its limit in seconds; None if the model raises.

        Raises _NoDecision if it takes too long or too much memory.
        """
        if self._budget.is_spent:
            raise _NoDecision
        started = time.monotonic()
        try:
            answer = run(min(self._within_s, self._budget.left_s) or CALL_LIMITS.least_s)
        except ModelRaised as error:
            if any(words in error.detail.lower() for words in _TOO_LARGE_WORDS):
                raise _NoDecision from error
            return None
        except (ServiceError, TooSlow) as error:
            raise _NoDecision from error
        if time.monotonic() - started > self._within_s:
            raise _NoDecision
        return answer


def _find_range(tester: _ValueTester, path: str, result: ValueRangeResult) -> None:
    """Add to `result` what is certain of one input. Raises _NoDecision if nothing can be found out in time."""
    tester.check()
    tensor = tester.target.call.tensors[path]
    kind = torch.iinfo(tensor.dtype)
    sizes = _find_weight_sizes(tester)
    high = _find_bound(
        lambda value: tester.accepts(_put_first(tester, path, value)), int(tensor.max()), kind.max, sizes
    )
    # The search goes down from 0, because a negative index counts from the end.
    downwards = [0, 1, *(size + 1 for size in sizes)]
    low = _find_bound(
        lambda value: tester.accepts(_put_first(tester, path, -value)), -int(tensor.min()), -kind.min, downwards
    )
    low = None if low is None else -low
    bounds = (kind.min if low is None else low), (kind.max if high is None else high)
    if low is None and high is None:
        result.bounds[path] = bounds
        return
    if not _is_own(tester, path, low, high, bounds):
        return
    at_bounds = {name_probe(f"{path!r} all {one}"): _fill(tester, path, one) for one in dict.fromkeys(bounds)}
    agrees = {name: tester.agrees(call) for name, call in at_bounds.items()}
    tester.check()
    if None in agrees.values():
        return
    result.bounds[path] = bounds
    result.differing.extend((name, at_bounds[name]) for name, agreed in agrees.items() if not agreed)
    if all(agrees.values()):
        result.ranges[path] = ValueRange(low=low, high=high, basis="tested")


def _find_bound(accepts: Callable[[int], bool], seen: int, last: int, hints: Sequence[int]) -> int | None:
    """Return the largest accepted integer; None if it is `last`, the datatype's.

    `seen` is known to be accepted. The sizes of weights, in `hints`, are the likeliest bounds and are tried first.
    Steps double from there, and the last step is bisected.
    """
    accepted = seen
    for refused in (*(size for size in _WAYPOINTS if seen < size < last), last):
        if accepted != last and not accepts(refused):
            break
        accepted = refused
    else:
        return None
    between = [hint for hint in hints if accepted < hint < refused]
    place = bisect_left(between, True, key=lambda hint: not accepts(hint))
    accepted = between[place - 1] if place else accepted
    if place < len(between):
        return _bisect(accepts, accepted, between[place])
    step = 1
    while accepted + step < refused and accepts(accepted + step):
        accepted += step
        step *= 2
    return _bisect(accepts, accepted, min(accepted + step, refused))


def _bisect(accepts: Callable[[int], bool], accepted: int, refused: int) -> int:
    """Return the last accepted integer. The one right before `refused` is the likeliest, so it is tried first."""
    if refused - accepted > 1 and accepts(refused - 1):
        return refused - 1
    while refused - accepted > 1:
        middle = (accepted + refused) // 2
        accepted, refused = (middle, refused) if accepts(middle) else (accepted, middle)
    return accepted


def _find_weight_sizes(tester: _ValueTester) -> list[int]:
    sizes = {size for weight in tester.target.artifact.parameters() for size in weight.shape if size > 1}
    return sorted(sizes)[:_HINTS_MAX]


def _is_own(tester: _ValueTester, path: str, low: int | None, high: int | None, bounds: tuple[int, int]) -> bool:
    """Whether the bounds hold for each element, for all elements together, at other sizes and beside other values."""
    last = tester.target.call.tensors[path].numel() - 1
    example = tester.target.call
    at_bounds = [_set_elements(example, path, {0: first, last: second}) for first, second in (bounds, bounds[::-1])]
    if not all(map(tester.accepts, at_bounds)):
        return False
    beyond = [one for one in (None if low is None else low - 1, None if high is None else high + 1) if one is not None]
    if any(tester.accepts(_set_elements(example, path, {place: one})) for one in beyond for place in (0, last)):
        return False
    return all(_has_same_bounds(tester, call, path, bounds, beyond) for call in _make_other_calls(tester))


def _has_same_bounds(
    tester: _ValueTester, call: Call, path: str, bounds: tuple[int, int], beyond: Sequence[int]
) -> bool:
    """Whether the bounds are the same on another call. They count as the same if the model refuses that call anyway."""
    last = call.tensors[path].numel() - 1
    if last < 0:
        return True
    if not tester.accepts(_set_elements(call, path, {0: bounds[0], last: bounds[1]})):
        return not tester.accepts(call)
    return not any(tester.accepts(_set_elements(call, path, {0: one})) for one in beyond)


def _make_other_calls(tester: _ValueTester) -> Iterator[Call]:
    """Yield the example at other sizes and with other values."""
    example = tester.target.call
    if tester.groups is not None:
        for symbol in tester.groups.symbols[:_OTHER_SIZES]:
            sizes = {symbol: tester.groups.example[symbol] + tester.groups.step(symbol)}
            if tester.groups.is_affordable(example, sizes):
                yield tester.groups.resize(example, sizes, tester.target.seed)
    yield from (call for _, call in islice(generate_probes(example, searching=False), _OTHER_VALUES))


def _put_first(tester: _ValueTester, path: str, value: int) -> Call:
    """Return the example with this integer as the first element of an input."""
    return _set_elements(tester.target.call, path, {0: value})


def _set_elements(call: Call, path: str, values: Mapping[int, int]) -> Call:
    """Return the call with other integers in one input, by their places in the flat tensor."""
    tensors = call.tensors
    flat = tensors[path].flatten().clone()
    for place, value in values.items():
        flat[place] = value
    return call.with_tensors({**tensors, path: flat.reshape(tensors[path].shape)})


def _fill(tester: _ValueTester, path: str, value: int) -> Call:
    call = tester.target.call
    tensors = call.tensors
    return call.with_tensors({**tensors, path: torch.full_like(tensors[path], value)})
