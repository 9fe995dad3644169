"""Ranges: the integers that the eager model takes, such as the ids of a vocabulary.

An end is claimed only where it is the model's own: eager raises beyond it and not before, wherever in the input the
integer stands, at other sizes, and beside other values. Where that is not sure, nothing is claimed.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

import torch

from tracehouse.check.calls import Answer, call_artifact, call_model
from tracehouse.check.inputs.probes import generate_probes
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.input_spec import ValueRange
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import is_out_of_memory
from tracehouse.errors import ModelRaised, ServiceError
from tracehouse.introspection import script_graphs
from tracehouse.torch_values.compare import compare

_DTYPES = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
# Operators that read or write beyond their memory where an integer is too large; of others' operators nothing is known.
_UNCHECKED = ("ctc_loss", "_pack_padded_sequence", "embedding_bag", "segment_reduce")
_CHECKED = ("aten::", "prim::", "mkldnn::", "onednn::")
# A loop in C, of so many rounds as an integer says, cannot be stopped: how long such take shows on the way to its end.
_ON_THE_WAY = (2**20, 2**26)
# As torch says that a size, rather than a value, is none.
_SAYS_TOO_LARGE = ("overflow", "allocat", "out of memory")
_HINTS_MAX = 64
_OTHER_SIZES, _OTHER_VALUES = 2, 3


@dataclass(frozen=True)
class ValueRangeResult:
    """What is known of a method's integers.

    `ends` is what eager takes, as probes ask for it: the ends of the ranges, and those of the datatype where there are
    none before. `differing` are calls, by their names, with integers of which eager takes all, on which the artifact
    answers otherwise.
    """

    ranges: dict[str, ValueRange] = field(default_factory=dict)
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    differing: list[tuple[str, Call]] = field(default_factory=list)


def find_value_ranges(target: Target, groups: Groups | None, budget: Budget) -> ValueRangeResult:
    """Of the inputs of integers; of none where a wrong integer could do harm. Eager answers the example."""
    found = ValueRangeResult()
    leaves = [path for path, tensor in target.call.tensors.items() if _may_have_a_range(tensor)]
    if not leaves or _is_unchecked(target):
        return found
    asking = _Asking(target, groups, budget)
    for place, path in enumerate(leaves):
        with suppress(_Unsure):
            _find(asking, path, found)
        if budget.is_spent:
            budget.leave_out(f"the integers that {', '.join(map(repr, leaves[place:]))} may hold")
            return found
    return found


def _may_have_a_range(tensor: torch.Tensor) -> bool:
    """On a GPU an index out of range is the end of the process."""
    return tensor.dtype in _DTYPES and tensor.numel() > 0 and tensor.device.type == "cpu"


def _is_unchecked(target: Target) -> bool:
    compiled = script_graphs.methods(target.artifact).get(target.method)
    if compiled is None:
        return True
    every = [compiled.inlined_graph, *(function for function in script_graphs.functions(compiled.inlined_graph))]
    kinds = {node.kind() for graph in every for node in script_graphs.nodes(graph)}
    return any(not kind.startswith(_CHECKED) or kind.endswith(_UNCHECKED) for kind in kinds)


class _Unsure(Exception):
    """Nothing can be said of an integer: eager took too long, or too much, or there is no time left."""


class _Asking:
    """Whether eager takes a call: one copy of it is asked for all of them, which is cheap, and may not be the same
    for long."""

    def __init__(self, target: Target, groups: Groups | None, budget: Budget) -> None:
        self.target = target
        self.groups = groups
        self._budget = budget
        self._module = target.model.fresh()
        self._within_s = CALL_LIMITS.integers.seconds

    def check(self) -> None:
        """That the copy takes the example as ever, and how long that takes. Raises _Unsure."""
        started = time.monotonic()
        if not self.takes(self.target.call):
            raise _Unsure
        self._within_s = CALL_LIMITS.integers.after(time.monotonic() - started)

    def takes(self, call: Call) -> bool:
        """Raises _Unsure."""
        seed = self.target.seed
        return self._asked(lambda within_s: call_model(self._module, call, seed, within_s=within_s)) is not None

    def agrees(self, call: Call) -> bool | None:
        """Whether the artifact answers as a new copy of eager does; None where that raises. Raises _Unsure."""
        eager = self._asked(lambda within_s: self.target.eager.answer(call, within_s=within_s))
        if eager is None:
            return None
        try:
            answer = call_artifact(self.target.artifact, call, self.target.seed)
        except Exception as error:
            if is_out_of_memory(error):
                raise _Unsure from error
            return False
        return compare(eager.outputs, answer.outputs, self.target.tolerance).agrees

    def _asked(self, ask: Callable[[float], Answer]) -> Answer | None:
        """None where it raises. Raises _Unsure."""
        if self._budget.is_spent:
            raise _Unsure
        started = time.monotonic()
        try:
            answer = ask(min(self._within_s, self._budget.left_s) or CALL_LIMITS.least_s)
        except ModelRaised as error:
            if any(words in error.detail.lower() for words in _SAYS_TOO_LARGE):
                raise _Unsure from error
            return None
        except (ServiceError, TooSlow) as error:
            raise _Unsure from error
        if time.monotonic() - started > self._within_s:
            raise _Unsure
        return answer


def _find(asking: _Asking, path: str, found: ValueRangeResult) -> None:
    """What is sure of one input. Raises _Unsure."""
    asking.check()
    tensor = asking.target.call.tensors[path]
    kind = torch.iinfo(tensor.dtype)
    sizes = _sizes(asking)
    high = _end(lambda value: asking.takes(_with(asking, path, value)), int(tensor.max()), kind.max, sizes)
    # Downwards from 0: an index counts from the end there.
    downwards = [0, 1, *(size + 1 for size in sizes)]
    low = _end(lambda value: asking.takes(_with(asking, path, -value)), -int(tensor.min()), -kind.min, downwards)
    low = None if low is None else -low
    ends = (kind.min if low is None else low), (kind.max if high is None else high)
    if low is None and high is None:
        found.ends[path] = ends
        return
    if not _is_own(asking, path, low, high, ends):
        return
    at_ends = {f"probe: {path!r} all {end}": _filled(asking, path, end) for end in dict.fromkeys(ends)}
    agrees = {name: asking.agrees(call) for name, call in at_ends.items()}
    asking.check()
    if None in agrees.values():
        return
    found.ends[path] = ends
    found.differing.extend((name, at_ends[name]) for name, agreed in agrees.items() if not agreed)
    if all(agrees.values()):
        found.ranges[path] = ValueRange(low=low, high=high, basis="tested")


def _end(takes: Callable[[int], bool], seen: int, last: int, points: Sequence[int]) -> int | None:
    """The largest that is taken; None where it is the datatype's last. The sizes of weights are the likeliest ends."""
    taken = seen
    for refused in (*(size for size in _ON_THE_WAY if seen < size < last), last):
        if taken != last and not takes(refused):
            break
        taken = refused
    else:
        return None
    between = [point for point in points if taken < point < refused]
    place = bisect_left(between, True, key=lambda point: not takes(point))
    taken = between[place - 1] if place else taken
    if place < len(between):
        return _between(takes, taken, between[place])
    step = 1
    while taken + step < refused and takes(taken + step):
        taken += step
        step *= 2
    return _between(takes, taken, min(taken + step, refused))


def _between(takes: Callable[[int], bool], taken: int, refused: int) -> int:
    """The last one that is taken. That right before the refused one is the likeliest."""
    if refused - taken > 1 and takes(refused - 1):
        return refused - 1
    while refused - taken > 1:
        middle = (taken + refused) // 2
        taken, refused = (middle, refused) if takes(middle) else (taken, middle)
    return taken


def _sizes(asking: _Asking) -> list[int]:
    sizes = {size for weight in asking.target.artifact.parameters() for size in weight.shape if size > 1}
    return sorted(sizes)[:_HINTS_MAX]


def _is_own(asking: _Asking, path: str, low: int | None, high: int | None, ends: tuple[int, int]) -> bool:
    """Whether the ends are the same for each element, and for all of them; at other sizes; beside other values."""
    last = asking.target.call.tensors[path].numel() - 1
    example = asking.target.call
    at_ends = [_changed(example, path, {0: first, last: second}) for first, second in (ends, ends[::-1])]
    if not all(map(asking.takes, at_ends)):
        return False
    beyond = [one for one in (None if low is None else low - 1, None if high is None else high + 1) if one is not None]
    if any(asking.takes(_changed(example, path, {place: one})) for one in beyond for place in (0, last)):
        return False
    return all(_holds(asking, call, path, ends, beyond) for call in _others(asking))


def _holds(asking: _Asking, call: Call, path: str, ends: tuple[int, int], beyond: Sequence[int]) -> bool:
    """Whether that call shows no other ends; one that eager refuses shows nothing."""
    last = call.tensors[path].numel() - 1
    if last < 0:
        return True
    if not asking.takes(_changed(call, path, {0: ends[0], last: ends[1]})):
        return not asking.takes(call)
    return not any(asking.takes(_changed(call, path, {0: one})) for one in beyond)


def _others(asking: _Asking) -> Iterator[Call]:
    """The example at other sizes, and with other values."""
    example = asking.target.call
    if asking.groups is not None:
        for symbol in asking.groups.symbols[:_OTHER_SIZES]:
            sizes = {symbol: asking.groups.example[symbol] + asking.groups.step(symbol)}
            if asking.groups.is_affordable(example, sizes):
                yield asking.groups.resized(example, sizes, asking.target.seed)
    yield from (call for _, call in islice(generate_probes(example, searching=False), _OTHER_VALUES))


def _with(asking: _Asking, path: str, value: int) -> Call:
    """As the first element."""
    return _changed(asking.target.call, path, {0: value})


def _changed(call: Call, path: str, values: Mapping[int, int]) -> Call:
    """With those elements at those places."""
    tensors = call.tensors
    flat = tensors[path].flatten().clone()
    for place, value in values.items():
        flat[place] = value
    return call.with_tensors({**tensors, path: flat.reshape(tensors[path].shape)})


def _filled(asking: _Asking, path: str, value: int) -> Call:
    call = asking.target.call
    tensors = call.tensors
    return call.with_tensors({**tensors, path: torch.full_like(tensors[path], value)})
