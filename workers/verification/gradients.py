"""Gradients in the verification: the artifact's backward pass compared with the eager model's.

Both weight what they return by the same random numbers. The derivatives by each floating-point input and each parameter
are compared, and the outputs as they are while gradients are on.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tracehouse.differential import golden, random_inputs
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.case_names import EXAMPLE, name_random_inputs
from tracehouse.differential.comparison import (
    ANSWER_NAMES,
    AnswerNames,
    ComparisonResult,
    Difference,
    combine_comparisons,
    compare_leaf,
    largest_finite,
)
from tracehouse.errors import AnswerTooLarge, Failure
from tracehouse.tensors.gradient_names import GRADIENT_PREFIX
from tracehouse.tensors.tensor import Datatype, Tensor
from workers.processes.artifact import ArtifactProcess
from workers.processes.client import GradientAnswer, last_line
from workers.processes.eager import EagerProcess

# How many rounds of fresh inputs are compared, and how many are drawn, for the eager model may refuse some.
ROUNDS, ROUNDS_DRAWN = 2, 8
# A gradient that is zero but for rounding, as a bias's before a softmax or a batch norm, may be as large as this many
# roundings of the largest gradient: numbers of that size were added, and cancelled.
_ROUNDINGS = 16
_EPSILON = {Datatype.FP16: 2**-10, Datatype.BF16: 2**-7, Datatype.FP32: 2**-23, Datatype.FP64: 2**-52}


@dataclass(frozen=True)
class GradientComparisons:
    """What was compared, by its case; `left_out` says why that is not all."""

    cases: list[tuple[str, ComparisonResult]]
    left_out: str | None = None


def compare_gradients(
    example: BoundCall, eager: EagerProcess, artifact: ArtifactProcess, tolerance: float, within_s: float
) -> GradientComparisons:
    """Compare on the example, so often that the artifact's backward pass is specialised, and on fresh inputs."""

    def ask(inputs: Sequence[Tensor], within_s: float | None = None) -> ComparisonResult | str:
        seed = int.from_bytes(os.urandom(8)) >> 1
        eager.ask_gradients(example, inputs, seed=seed, within_s=within_s)
        artifact.ask_gradients(example, inputs, seed=seed)
        return _compare_answers(eager.gradients(), artifact.gradients(), tolerance)

    on_example: list[ComparisonResult] = []
    for _ in range(golden.CALLS_TO_SPECIALISE):
        result = ask(example.inputs)
        if isinstance(result, str):
            return GradientComparisons([], result)
        on_example.append(result)
    cases = [(EXAMPLE, next((one for one in on_example if not one.agrees), on_example[0]))]
    left_out = "on fresh inputs, for its inputs hold no values that could be varied"
    rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
    for inputs in islice(random_inputs.draw_rounds(example.inputs, rng), ROUNDS_DRAWN):
        result = ask(inputs, within_s)
        if isinstance(result, str):
            left_out = f"on fresh inputs: {result}"
            continue
        cases.append((name_random_inputs(f"{len(cases)}"), result))
        if len(cases) > ROUNDS:
            break
    return GradientComparisons(cases, left_out if len(cases) == 1 else None)


def compare(
    eager: GradientAnswer, artifact: GradientAnswer, tolerance: float, names: AnswerNames = ANSWER_NAMES
) -> ComparisonResult:
    """Compare outputs and gradients. A gradient that one of the two does not have counts as zero."""
    missing = _find_missing(eager, artifact, names) or _find_missing(artifact, eager, names[::-1])
    if missing is not None:
        return ComparisonResult(None, missing)
    gradients = [tensor for name, tensor in eager.tensors.items() if name.startswith(GRADIENT_PREFIX)]
    largest = max(map(largest_finite, gradients), default=0.0)
    pairs = [_pair(name, eager, artifact) for name in {**eager.tensors, **artifact.tensors}]
    return combine_comparisons(
        compare_leaf(some, other, tolerance, names, rounding=_rounding(some, largest)) for some, other in pairs
    )


def _compare_answers(
    eager: GradientAnswer | Failure, artifact: GradientAnswer | Failure, tolerance: float
) -> ComparisonResult | str:
    """Return the comparison, or why there is nothing to compare."""
    if isinstance(eager, Failure):
        return eager.detail
    if isinstance(artifact, Failure):
        if artifact.slug == AnswerTooLarge.slug():
            return artifact.detail
        return ComparisonResult(None, Difference("output", last_line(artifact)))
    if not any(name.startswith(GRADIENT_PREFIX) for name in [*eager.tensors, *artifact.tensors]):
        return "what it returns has no gradient, of no input and of no parameter"
    return compare(eager, artifact, tolerance)


def _find_missing(has: GradientAnswer, other: GradientAnswer, names: AnswerNames) -> Difference | None:
    """Return the first tensor of one that the other does not know."""
    there = {*other.tensors, *other.without}
    missing = next((name for name in [*has.tensors, *has.without] if name not in there), None)
    return None if missing is None else Difference(missing, f"{names[0]} has it, and {names[1]} has not")


def _pair(name: str, eager: GradientAnswer, artifact: GradientAnswer) -> tuple[Tensor, Tensor]:
    some, other = eager.tensors.get(name), artifact.tensors.get(name)
    given = some or other
    assert given is not None  # one of both has it
    return some or _zeros(given), other or _zeros(given)


def _rounding(eager: Tensor, largest: float) -> float:
    if not eager.name.startswith(GRADIENT_PREFIX):
        return 0.0
    return _ROUNDINGS * _EPSILON.get(eager.datatype, 0.0) * largest  # submitted code may call an integer a gradient


def _zeros(like: Tensor) -> Tensor:
    return Tensor(like.name, like.datatype, like.shape, bytes(len(like.data)))
