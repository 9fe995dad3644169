"""Three runs: eager, the artifact, and eager in float64, which tells rounding from error.

A fixed tolerance takes a wrong constant for rounding where the model computes exactly, and rounding for an error where
it cannot. So the error of both is measured, against the answer that the eager model gives in float64, and the
artifact's may be only so many times eager's own, beside a floor. That is how torch judges its own compiler
(`torch._dynamo.utils.same`, with the root mean square), and torchtitan and AWS's Neuron their numerics. Here the
largest error is judged as well: the mean would hide a single wrong value.

Errors are measured in units of eps * (|value| + scale), where eps is the datatype's and the scale is `scale_of`. The
largest error of the eager model in these units is the condition number: how many roundings the result is off.

Where the eager model is off by half of all its digits, it fell on another side of a threshold (a rounding, an argmax,
an overflow) than float64. There float64 is no reference, and the fixed tolerance decides.

Answers that are in float64 already are judged by the same three runs, with room for another order of operations: eager
has no error of its own there, unless it computes with fewer digits on the way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracehouse.differential.comparison import (
    ANSWER_NAMES,
    Answer,
    AnswerNames,
    ComparisonResult,
    combine_comparisons,
    compare,
    compare_leaf,
    difference_at,
    find_nesting_difference,
    flat,
    parts_of,
    relative_tolerance,
    same_bytes,
    sample_of,
    scale_of,
)
from tracehouse.tensors.tensor import Datatype, Tensor

# In float64 nothing has more digits, so that rounding is not measured: 2^19 roundings, 1e-10 of a value, are allowed as
# one. A number that a trace computes in float32 is off by up to 6e-8, and seldom by less than 1e-9. Chosen.
EPSILON = {Datatype.FP16: 2.0**-10, Datatype.BF16: 2.0**-7, Datatype.FP32: 2.0**-23, Datatype.FP64: 2.0**-33}
# The least normal number: the numbers below it are no closer to each other than those above it.
_LEAST_NORMAL = {Datatype.FP16: 2.0**-14, Datatype.BF16: 2.0**-126, Datatype.FP32: 2.0**-126, Datatype.FP64: 2.0**-1022}
# How many times eager's own error the artifact's may be: the largest, with the numbers of torch._dynamo.utils.same, and
# the root mean square, which chance moves less.
_MULTIPLIER = {Datatype.FP16: 3.0, Datatype.BF16: 3.0, Datatype.FP32: 2.0, Datatype.FP64: 2.0}
_MEAN_MULTIPLIER = 2.0
# A form that is served folds constants into weights, which rounds each weight once more. Measured on resnet18,
# mobilenet_v2, mobilenet_v3_small and densenet121, frozen or optimised for inference: up to 1.8 times eager's error in
# float32 and 2.4 times in bfloat16. Twice the multipliers leaves room for others.
_REBUILT = 2.0
# The floor, in units of eps. A result is rounded once, by up to half a unit; by a uniform 1 / sqrt(12) of a unit in the
# mean, which beside a scale of four times the usual value is 0.07.
_LARGEST_FLOOR, _MEAN_FLOOR = 0.5, 0.07
# All values of the artifact may be off by one factor of so many eps: a trace rounds a constant such as 1 / n / n once
# more than Python does.
_FACTOR = 1.5
# A single value may be exact by luck. A sum of n terms, added in pairs as torch does, is off by about sqrt(log2 n)
# roundings of half a unit (Blanchard, Higham and Mary, 2020), so by 2 units for n = 2^16: twice that is allowed. Among
# N values that all have such luck is rarer than 1 in N. Equal values, as of an expanded tensor, count as one.
_LUCK = 4.0

# No float64 is asked where two values differ by so many times the largest error that eager may have. Chosen, above all
# multipliers.
_GROSS = 10.0

AskFloat64 = Callable[[], Answer | str]


def compare_three_runs(
    eager: Answer,
    artifact: Answer,
    ask_float64: AskFloat64,
    tolerance: float,
    names: AnswerNames = ANSWER_NAMES,
    *,
    rebuilt: bool = False,
) -> ComparisonResult:
    """Return how two answers compare, by eager's answer in float64 where their bytes differ.

    `ask_float64` returns that answer, or why there is none: then the fixed relative `tolerance` decides. It is called
    at most once, and only if floats differ. `rebuilt`: the artifact is served in a form that computes with other
    constants than eager does.
    """
    if find_nesting_difference(eager.returns, artifact.returns, "output", names) is not None:
        return compare(eager, artifact, tolerance, names)
    pairs = [(leaf, artifact.leaves[name]) for name, leaf in eager.leaves.items()]
    apart = [pair for pair in pairs if rounds_apart(*pair)]
    if not apart or any(_is_gross(*pair) for pair in apart):
        return compare(eager, artifact, tolerance, names)
    precise = ask_float64()
    if isinstance(precise, str):
        return replace(compare(eager, artifact, tolerance, names), without_float64=precise)
    return combine_comparisons(
        compare_leaf_in_three_runs(
            leaf, artifact.leaves[name], precise.leaves.get(name), tolerance, names, rebuilt=rebuilt
        )
        for name, leaf in eager.leaves.items()
    )


def rounds_apart(eager: Tensor, artifact: Tensor) -> bool:
    """Whether the two are floats of one shape whose bytes differ."""
    alike = eager.datatype == artifact.datatype and tuple(eager.shape) == tuple(artifact.shape)
    return alike and eager.datatype in EPSILON and not same_bytes(eager, artifact)


def compare_leaf_in_three_runs(
    eager: Tensor,
    artifact: Tensor,
    precise: Tensor | None,
    tolerance: float,
    names: AnswerNames = ANSWER_NAMES,
    *,
    rebuilt: bool = False,
) -> ComparisonResult:
    """Compare two leaves by the same leaf in float64. Where that is no reference, the fixed tolerance decides."""
    fixed = compare_leaf(eager, artifact, tolerance, names)
    if not rounds_apart(eager, artifact) or fixed.largest is None:
        return fixed
    if precise is None or precise.datatype is not Datatype.FP64 or tuple(precise.shape) != tuple(eager.shape):
        return replace(fixed, without_float64=f"in float64 the model returns another {eager.name!r}")
    errors = _measure(eager, artifact, precise, tolerance)
    if not errors.lie_within(_REBUILT if rebuilt else 1.0):
        if not fixed.agrees:
            return fixed
        found = difference_at(errors.farthest, eager, artifact, names)
        what = f"{found.what}; {errors.describe(names)}"
        return ComparisonResult(
            fixed.largest, replace(found, what=what), condition=errors.eager, relative=errors.relative
        )
    if errors.differ_elsewhere:
        return replace(fixed, inconclusive=True)
    if fixed.agrees:
        return fixed
    return ComparisonResult(fixed.largest, None, condition=errors.eager, relative=errors.relative)


def _is_gross(eager: Tensor, artifact: Tensor) -> bool:
    """Whether the two are farther apart than rounding can explain wherever float64 is a reference."""
    return not compare_leaf(eager, artifact, _GROSS * math.sqrt(EPSILON[eager.datatype])).agrees


@dataclass
class _Errors:
    """The errors of a leaf against float64, in units of eps * (|value| + scale).

    `counted` values are judged, with the largest error of each side and the sums of the squares. `differ_elsewhere`:
    of the others, some differ by more than the fixed tolerance. `farthest` is where the artifact is worst, as a flat
    index. `relative` is the least fixed tolerance at which the two would agree.
    """

    datatype: Datatype
    distinct: int  # how many values are not equal to each other, of a sample
    counted: int = 0
    eager: float = 0.0
    artifact: float = 0.0
    eager_squares: float = 0.0
    artifact_squares: float = 0.0
    farthest: int = 0
    relative: float = 0.0
    differ_elsewhere: bool = False

    def lie_within(self, times: float) -> bool:
        """Whether the artifact's errors are at most the multiplier of eager's own, `times` that, beside the floor."""
        if not self.counted:
            return True
        luck = _LUCK / max(1, self.distinct)
        mean, own_mean = (math.sqrt(squares / self.counted) for squares in (self.artifact_squares, self.eager_squares))
        return (
            self.artifact <= times * _MULTIPLIER[self.datatype] * self.eager + _LARGEST_FLOOR + luck
            and mean <= times * _MEAN_MULTIPLIER * own_mean + _MEAN_FLOOR + luck
        )

    def describe(self, names: AnswerNames) -> str:
        """Return both errors in words, relative to the leaf's values."""
        eps = EPSILON[self.datatype]
        eager, artifact = (math.sqrt(squares / self.counted) for squares in (self.eager_squares, self.artifact_squares))
        return (
            f"against the model in float64, {names[1]}'s error is up to {self.artifact * eps:.2g} of the values (root "
            f"mean square {artifact * eps:.2g}), and {names[0]}'s own up to {self.eager * eps:.2g} ({eager * eps:.2g})"
        )

    def add(self, place: int, own: NDArray[np.float64], other: NDArray[np.float64], at: NDArray[np.intp]) -> None:
        """Count the errors of a part that begins at `place`: eager's own and the artifact's, at these indices of it."""
        if not at.size:
            return
        self.counted += at.size
        self.eager = max(self.eager, float(own.max()))
        self.eager_squares += float(np.square(own).sum())
        self.artifact_squares += float(np.square(other).sum())
        if (most := float(other.max())) > self.artifact:
            self.artifact, self.farthest = most, place + int(at[other.argmax()])


def _measure(eager: Tensor, artifact: Tensor, precise: Tensor, tolerance: float) -> _Errors:
    answers, others, exact = flat(eager), flat(artifact), flat(precise)
    eps = EPSILON[eager.datatype]
    relative = relative_tolerance(eager.datatype, tolerance)
    fixed_scale, scale = scale_of(answers), scale_of(exact) + _LEAST_NORMAL[eager.datatype]
    errors = _Errors(eager.datatype, len(np.unique(sample_of(exact))))
    factor = 1 + min(_FACTOR * eps, max(-_FACTOR * eps, _factor_between(answers, others)))
    for part in parts_of(answers):
        some, other, true = (values[part].astype(np.float64) for values in (answers, others, exact))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            unit = eps * (np.abs(true) + scale)
            own, theirs = np.abs(some - true) / unit, np.abs(other / factor - true) / unit
            # A comparison with NaN is false: such a value is none that float64 can judge.
            is_judged = own <= 1 / math.sqrt(eps)
            apart = np.abs(some - other) / (np.abs(some) + fixed_scale)
        apart = np.where(np.isnan(apart), 0.0, apart)  # equal infinities
        at = np.flatnonzero(is_judged)
        errors.add(part.start, own[at], theirs[at], at)
        errors.differ_elsewhere |= bool((apart > relative)[~is_judged].any())
        errors.relative = max(errors.relative, float(apart.max()))
    return errors


def _factor_between(answers: NDArray[Any], others: NDArray[Any]) -> float:
    """Return by which factor above 1 the others are larger, if that is all that tells them apart: the least squares."""
    products = squares = 0.0
    for part in parts_of(answers):
        some, other = (values[part].astype(np.float64) for values in (answers, others))
        is_finite = np.isfinite(some) & np.isfinite(other)
        some, apart = some[is_finite], other[is_finite] - some[is_finite]
        products, squares = products + float(some @ apart), squares + float(some @ some)
    return products / squares if 0 < squares < math.inf and math.isfinite(products) else 0.0
