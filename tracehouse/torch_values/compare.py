"""Comparing the outputs of two calls in this process, by the rule of `tracehouse.differential.comparison`."""

from collections.abc import Callable
from typing import Any

import torch

from tracehouse.differential import three_runs
from tracehouse.differential.comparison import (
    ANSWER_NAMES,
    Answer,
    AnswerNames,
    ComparisonResult,
    Difference,
    combine_comparisons,
    compare_leaf,
    find_nesting_difference,
)
from tracehouse.tensors.tensor import Tensor
from tracehouse.torch_values import returned, structure
from tracehouse.torch_values.tensors import datatype_of, to_bytes


def compare(
    eager: Any, artifact: Any, tolerance: float, name: str = "output", sides: AnswerNames = ANSWER_NAMES
) -> ComparisonResult:
    """Return the first leaf that differs by more than the tolerance, and the largest difference of all leaves.

    `eager` and `artifact` are tensors, nested in any way, and `tolerance` is relative. `name` is the path of both, and
    `sides` says what to call them in the text of a difference.
    """
    found = find_nesting_difference(structure.describe(eager, name), structure.describe(artifact, name), name, sides)
    if found is not None:
        return ComparisonResult(None, found)
    expected, actual = structure.tensors(eager, name), structure.tensors(artifact, name)
    return combine_comparisons(
        _compare_tensors(path, expected[path], actual[path], tolerance, sides) for path in expected
    )


def compare_three_runs(
    eager: Any,
    artifact: Any,
    ask_float64: Callable[[], Any | str],
    tolerance: float,
    sides: AnswerNames = ANSWER_NAMES,
) -> ComparisonResult:
    """Return how two outputs compare, by eager's in float64 where they differ: see `differential.three_runs`.

    `ask_float64` returns these outputs, or a text that says why there are none.
    """
    first, second = _pack_answer(eager), _pack_answer(artifact)
    if first is None or second is None:
        return compare(eager, artifact, tolerance, sides=sides)

    def ask() -> Answer | str:
        outputs = ask_float64()
        if isinstance(outputs, str):
            return outputs
        return _pack_answer(outputs) or "in float64 it returns tensors that are not compared"

    return three_runs.compare_three_runs(first, second, ask, tolerance, sides)


def copy_outputs(value: Any) -> Any:
    """Return the outputs with copies of their tensors, without history: a later call may write into their memory."""
    return structure.map_tensors(value, "", lambda _, tensor: tensor.detach().clone())


def _compare_tensors(
    path: str, eager: torch.Tensor, artifact: torch.Tensor, tolerance: float, sides: AnswerNames
) -> ComparisonResult:
    first, second = (_pack_leaf(path, returned.as_reals(one)) for one in (eager, artifact))
    if first is not None and second is not None:
        return compare_leaf(first, second, tolerance, sides)
    kinds = [f"{side.dtype}, {side.layout}" for side in (eager, artifact)]
    what = f"{sides[0]} gives {kinds[0]}, and {sides[1]} {kinds[1]}: such tensors are not compared"
    return ComparisonResult(None, Difference(path, what))


def _pack_answer(outputs: Any) -> Answer | None:
    """Return the outputs as bytes; None if one of the tensors has no datatype."""
    named = returned.tensors(outputs)
    leaves = {name: _pack_leaf(name, tensor) for name, tensor in named.items()}
    packed = {name: leaf for name, leaf in leaves.items() if leaf is not None}
    return Answer(structure.describe(outputs, "output"), packed) if len(packed) == len(leaves) else None


def _pack_leaf(name: str, tensor: torch.Tensor) -> Tensor | None:
    datatype = datatype_of(tensor)
    return None if datatype is None else Tensor(name, datatype, tuple(tensor.shape), to_bytes(tensor))
