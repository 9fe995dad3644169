"""Comparison: whether two answers are the same, by their nesting and their bytes alone.

A trace is checked, verified, and checked again wherever it is loaded, always by this one rule. This module loads no
torch, so that a parent can compare what its children answered. The rule is the same for every device: both models
compute on the device that the artifact is for, and TF32 is on or off for both, as torch and the source set it.

The fixed rule for floats is that of torch.allclose, |a - b| <= rtol * |a| + atol, where `rtol` is the tolerance and
`atol` is the tolerance times the scale of the whole tensor (`scale_of`). Everything else must be equal.

`three_runs` has the rule that measures rounding instead. The fixed one decides where a request gives a tolerance, where
a model cannot run in float64, and where golden cases are replayed, perhaps on another machine.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from tracehouse.contract.structure import (
    Argument,
    BakedLeaf,
    ComplexLeaf,
    DataclassNode,
    DictNode,
    FixedLeaf,
    ListNode,
    NamedTupleNode,
    Structure,
    TensorLeaf,
    TupleNode,
    find_baked_difference,
    items_of,
)
from tracehouse.tensors.tensor import Datatype, Tensor, json_number
from tracehouse.tensors.tensor import array as flat_array

# The least relative tolerance of formats with few digits: two units in the last place (2^-10 and 2^-7), rounded up.
_LEAST_TOLERANCE = {Datatype.FP16: 2e-3, Datatype.BF16: 1.6e-2}
# Values that are compared at a time: an answer of a gigabyte would otherwise take several gigabytes more. Chosen.
_CHUNK = 2**20

# The usual magnitude of values is taken from about this many of them. Chosen.
_SAMPLE = 2**16
# How many times the usual magnitude the scale may be. Chosen: float32 has seven digits, so a value that is left over
# from numbers a thousand times as large still has four right ones.
_PROPORTION = 1000.0

_KINDS: dict[type[Structure], str] = {
    TensorLeaf: "a tensor",
    ComplexLeaf: "a complex tensor",
    ListNode: "a list",
    TupleNode: "a tuple",
    NamedTupleNode: "a named tuple",
    DataclassNode: "a dataclass",
    DictNode: "a dict",
}

AnswerNames = tuple[str, str]
ANSWER_NAMES: AnswerNames = ("eager", "the artifact")


@dataclass(frozen=True)
class Difference:
    """A difference in one leaf, and in words.

    `index` is where the two differ most, with an index for each dim, and `eager` and `artifact` are the values there.
    They are None if the leaves cannot be subtracted, because their nesting, datatypes or shapes differ.
    """

    leaf: str
    what: str
    index: list[int] | None = None
    eager: JsonValue = None
    artifact: JsonValue = None

    @property
    def evidence(self) -> dict[str, Any]:
        """Where the leaf differs and what each gave, as a finding shows it."""
        return {"index": self.index, "eager": self.eager, "artifact": self.artifact}


class Outcome(StrEnum):
    """What came of a comparison.

    pass: the two are equal, or no farther apart than rounding makes them.
    limited: they are farther apart than the tolerance, and the eager model's own rounding is as large.
    fail: they differ.
    inconclusive: they differ by more than the tolerance, and in float64 the eager model takes another side of a
    threshold, so that nothing tells rounding from error.
    """

    PASS = "pass"
    LIMITED = "limited"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class ComparisonResult:
    """The first difference, and the largest absolute difference of two values over all leaves.

    `largest` is None if some leaves cannot be subtracted. `condition` is the largest error of the eager model in
    roundings, where it was measured and decided. `relative` is then the least relative tolerance at which the two would
    agree by the fixed rule. `without_float64` says why the eager model gave no answer in float64, if it was asked.
    """

    largest: float | None
    difference: Difference | None
    condition: float | None = None
    relative: float = 0.0
    inconclusive: bool = False
    without_float64: str | None = None

    @property
    def agrees(self) -> bool:
        return self.difference is None

    @property
    def differs_by_rounding(self) -> bool:
        """Whether the two differ within the fixed tolerance, by more rounding than eager has."""
        return self.difference is not None and self.condition is not None

    @property
    def outcome(self) -> Outcome:
        if self.difference is not None:
            return Outcome.INCONCLUSIVE if self.inconclusive else Outcome.FAIL
        return Outcome.PASS if self.condition is None else Outcome.LIMITED


@dataclass(frozen=True)
class Answer:
    """The answer of a call: how its outputs nest, and the tensors in them by their names.

    `drew`: the artifact drew random numbers for it.
    """

    returns: Structure
    leaves: Mapping[str, Tensor]
    drew: bool = False


def compare(eager: Answer, artifact: Answer, tolerance: float, names: AnswerNames = ANSWER_NAMES) -> ComparisonResult:
    """Return the first leaf that differs by more than the tolerance, and the largest difference of all leaves.

    `tolerance` is relative; the head of this file has the rule. `names` says what to call the two in the text of a
    difference.
    """
    found = find_nesting_difference(eager.returns, artifact.returns, "output", names)
    if found is not None:
        return ComparisonResult(None, found)
    return combine_comparisons(
        compare_leaf(eager.leaves[name], artifact.leaves[name], tolerance, names) for name in eager.leaves
    )


def combine_comparisons(leaves: Iterable[ComparisonResult]) -> ComparisonResult:
    """Return one result for all leaves, from the result of each."""
    compared = list(leaves)
    differing = sorted(
        (leaf for leaf in compared if leaf.difference is not None),
        key=lambda leaf: (leaf.inconclusive, leaf.differs_by_rounding),
    )
    decisive = differing[:1] or [leaf for leaf in compared if leaf.outcome is Outcome.LIMITED]
    largest = [leaf.largest for leaf in compared if leaf.largest is not None]
    return ComparisonResult(
        max(largest, default=0.0) if len(largest) == len(compared) else None,
        differing[0].difference if differing else None,
        condition=max((leaf.condition for leaf in decisive if leaf.condition is not None), default=None),
        relative=max((leaf.relative for leaf in decisive), default=0.0),
        inconclusive=bool(differing) and differing[0].inconclusive,
        without_float64=next((leaf.without_float64 for leaf in compared if leaf.without_float64 is not None), None),
    )


def find_nesting_difference(
    eager: Structure, artifact: Structure, name: str, names: AnswerNames = ANSWER_NAMES
) -> Difference | None:
    """Return the first place where the two nest differently, or None. The order of a dict's keys does not count.

    `name` is the path of both, such as `output.0`.
    """
    match eager, artifact:
        case (DictNode(mapping=by_key), DictNode(mapping=others_by_key)) | (
            DataclassNode(dataclass=by_key),
            DataclassNode(dataclass=others_by_key),
        ):
            if sorted(by_key) != sorted(others_by_key):
                what = f"{names[0]} returns the keys {[*by_key]} there, and {names[1]} {[*others_by_key]}"
                return Difference(name, what)
            pairs = [(key, item, others_by_key[key]) for key, item in by_key.items()]
        case NamedTupleNode(), NamedTupleNode() if [*eager.namedtuple] != [*artifact.namedtuple]:
            fields = f"{[*eager.namedtuple]} there, and {names[1]} {[*artifact.namedtuple]}"
            return Difference(name, f"{names[0]} returns the fields {fields}")
        case (ListNode(), ListNode()) | (TupleNode(), TupleNode()) | (NamedTupleNode(), NamedTupleNode()):
            items, others = items_of(eager), items_of(artifact)
            if len(items) != len(others):
                what = f"{names[0]} returns {len(items)} items there, and {names[1]} {len(others)}"
                return Difference(name, what)
            pairs = [(key, item, other) for (key, item), (_, other) in zip(items, others, strict=True)]
        case _:
            kind, other = _kind(eager), _kind(artifact)
            if kind == other:
                return None
            return Difference(name, f"{names[0]} returns {kind} there, and {names[1]} {other}")
    found = (find_nesting_difference(item, other, f"{name}.{key}", names) for key, item, other in pairs)
    return next((difference for difference in found if difference is not None), None)


def compare_baked_arguments(example: Iterable[Argument], call: Iterable[Argument]) -> Difference | None:
    """Return the first argument for which a call has another value than the one that the trace baked in, or None."""
    found = find_baked_difference(example, call)
    if found is None:
        return None
    path, was, is_ = found
    return Difference(path, f"the trace was made with {was}, and this call has {is_}")


def compare_leaf(
    eager: Tensor, artifact: Tensor, tolerance: float, names: AnswerNames = ANSWER_NAMES, *, rounding: float = 0.0
) -> ComparisonResult:
    """Compare datatype, shape and values of two leaves. The text of a difference has the first one's name.

    Floats may differ by `tolerance`, relative to their own magnitude and to the leaf's scale, and by `rounding` more,
    which is absolute.
    """
    if eager.datatype != artifact.datatype:
        what = f"{names[0]} gives {eager.datatype}, and {names[1]} {artifact.datatype}"
        return ComparisonResult(None, Difference(eager.name, what))
    if tuple(eager.shape) != tuple(artifact.shape):
        shapes = f"{names[0]} gives shape {list(eager.shape)}, and {names[1]} {list(artifact.shape)}"
        return ComparisonResult(None, Difference(eager.name, shapes))
    if same_bytes(eager, artifact):
        return ComparisonResult(0.0, None)
    is_float = eager.datatype.is_float
    place, largest = (
        _compare_floats(eager, artifact, tolerance, rounding) if is_float else _compare_integers(eager, artifact)
    )
    return ComparisonResult(largest, None if place is None else difference_at(place, eager, artifact, names))


def same_bytes(eager: Tensor, artifact: Tensor) -> bool:
    """Whether two tensors of one datatype and shape have the same bytes. numpy is faster at it than a memoryview."""
    first, second = (np.frombuffer(tensor.data, np.uint8) for tensor in (eager, artifact))
    return len(first) == len(second) and all((first[part] == second[part]).all() for part in parts_of(first))


def relative_tolerance(datatype: Datatype, tolerance: float) -> float:
    """Return the tolerance, or the least one of a format with few digits."""
    return max(tolerance, _LEAST_TOLERANCE.get(datatype, 0.0))


def closeness_bounds(eager: Tensor, tolerance: float, measured: float = 0.0) -> tuple[float, float]:
    """Return the rtol and atol with which torch.testing.assert_close accepts what `compare_leaf` accepts.

    If the two differ because of rounding that was `measured`, as `ComparisonResult.relative`, half of that is accepted.
    """
    if not eager.datatype.is_float:
        return 0.0, 0.0
    relative = measured / 2 if measured else relative_tolerance(eager.datatype, tolerance)
    return relative, relative * scale_of(flat(eager))


def largest_finite(tensor: Tensor) -> float:
    """Return the largest magnitude among the finite values, 0 if there is none."""
    values = flat(tensor)
    return max((float(_finite(values[part]).max()) for part in parts_of(values)), default=0.0)


_Difference = tuple[int | None, float | None]  # a flat index at which they differ, and the largest difference


def _compare_floats(eager: Tensor, artifact: Tensor, tolerance: float, rounding: float) -> _Difference:
    expected, actual = flat(eager), flat(artifact)
    relative = relative_tolerance(eager.datatype, tolerance)
    scale = scale_of(expected)
    farthest, largest, differ = 0, -1.0, False
    for part in parts_of(expected):
        some, others = _as_float64(expected[part]), _as_float64(actual[part])
        unlike = np.isfinite(some) != np.isfinite(others)
        # Equal infinities agree: their difference, which is NaN, does not count.
        unlike |= ~np.isfinite(some) & (some != others) & ~(np.isnan(some) & np.isnan(others))
        if unlike.any():
            return part.start + int(unlike.argmax()), None
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.where(np.isfinite(some), np.abs(some - others), 0.0)
            differ |= bool((apart > relative * _finite(some) + relative * scale + rounding).any())
        if (most := float(apart.max())) > largest:
            farthest, largest = part.start + int(apart.argmax()), most
    return (farthest if differ else None), largest


def scale_of(values: NDArray[Any]) -> float:
    """Return the magnitude of the numbers that these values may have been computed from.

    If large numbers cancel in a sum, the small result is only as exact as they were. So the scale is the largest finite
    magnitude, but at most `_PROPORTION` times the median magnitude: one huge value, such as the lowest float that masks
    a logit, would make all others seem close. For the median, zeros do not count, and equal values count once.
    """
    largest = max((float(_finite(values[part]).max()) for part in parts_of(values)), default=0.0)
    sizes = _finite(sample_of(values))
    sizes = np.sort(sizes[sizes > 0])  # not np.unique, whose first call imports a module: a runner can't
    sizes = sizes[np.append(True, sizes[1:] != sizes[:-1])] if sizes.size else sizes
    return min(largest, _PROPORTION * float(sizes[(sizes.size - 1) // 2])) if sizes.size else largest


def sample_of(values: NDArray[Any]) -> NDArray[Any]:
    """Return values from all over the tensor, at most twice as many as a sample has."""
    return values[:: max(1, len(values) // _SAMPLE)]


def _compare_integers(eager: Tensor, artifact: Tensor) -> _Difference:
    """Compare exactly. From 2^53 on, different integers can be equal as floats."""
    expected, actual = flat(eager), flat(artifact)
    farthest, largest = None, 0.0
    for part in parts_of(expected):
        differing = np.flatnonzero(expected[part] != actual[part])
        if not differing.size:
            continue
        some, others = (_as_float64(values[part][differing]) for values in (expected, actual))
        apart = np.abs(some - others)
        if farthest is None or float(apart.max()) > largest:
            farthest, largest = part.start + int(differing[apart.argmax()]), float(apart.max())
    return farthest, largest


def _finite(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return the magnitudes, with 0 for what is not finite."""
    sizes = np.abs(_as_float64(values))
    return np.where(np.isfinite(sizes), sizes, 0.0)


def _as_float64(values: NDArray[np.generic]) -> NDArray[np.float64]:
    return values.astype(np.float64)


def parts_of(values: NDArray[Any]) -> list[slice]:
    """Return the slices of the values that are compared at a time."""
    return [slice(start, start + _CHUNK) for start in range(0, len(values), _CHUNK)]


def difference_at(place: int, eager: Tensor, artifact: Tensor, names: AnswerNames) -> Difference:
    """Return the difference at a flat index of two leaves of one shape."""
    index = _index(place, eager.shape)
    first, second = (_value(flat(tensor)[place]) for tensor in (eager, artifact))
    return Difference(eager.name, f"{names[0]} gives {first} at {index}, and {names[1]} {second}", index, first, second)


def _index(place: int, shape: Sequence[int]) -> list[int]:
    index: list[int] = []
    for size in reversed(shape):
        place, within = divmod(place, size)
        index.insert(0, within)
    return index


def _value(value: np.generic) -> JsonValue:
    number = value.item()
    return json_number(number) if isinstance(number, float) else number


def flat(tensor: Tensor) -> NDArray[Any]:
    """Return the tensor's values, row by row."""
    return flat_array(tensor.datatype, tensor.data)


def _kind(node: Structure) -> str:
    match node:
        case BakedLeaf():
            return f"the constant {node.baked!r}"
        case FixedLeaf():
            return f"the value {node.fixed!r}"
    return _KINDS[type(node)]
