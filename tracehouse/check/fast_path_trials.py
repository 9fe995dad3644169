"""Fast path trials: whether a model that was traced without its fast paths answers otherwise with them.

At padded positions it may, and in rows that are all padding: nothing that attends to the padding mask reads these.
Everywhere else the two must agree, or the artifact is no artifact of the model that its user runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations

import torch

from tracehouse.check.oracle import EagerOracle
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.comparison import Difference
from tracehouse.eager import fast_paths
from tracehouse.eager.call import Call, CheckCall
from tracehouse.errors import LimitExceeded, ModelRaised
from tracehouse.torch_values import structure
from tracehouse.torch_values.compare import compare

_SIDES = ("the model without its fast paths", "the model with them")
# Inputs of whole numbers and booleans get these at the end of each row: ids of padding, and what masks have there.
_PADDINGS = (0, 1)


@dataclass(frozen=True)
class FastPathTrials:
    """What came of the trials: the first call on which the answers differ, and whether a call had padding."""

    has_padding: bool = False
    case: str = ""
    difference: Difference | None = None


def try_fast_paths(eager: EagerOracle, cases: Iterable[CheckCall], tolerance: float) -> FastPathTrials:
    """Ask the model each call with its fast paths too; they are off in this process. `tolerance` is relative."""
    has_padding = False
    for case in cases:
        with suppress(ModelRaised, LimitExceeded, TooSlow):
            for padded, difference in _compare_ways(eager, case.call, tolerance):
                has_padding = has_padding or padded
                if difference is not None:
                    return FastPathTrials(has_padding, case.name, difference)
    return FastPathTrials(has_padding)


def pad_ends(case: CheckCall) -> Iterator[CheckCall]:
    """Yield the call with whole numbers and booleans that are likely to be padding at the end of each row."""
    for padding in _PADDINGS:
        padded = {name: _pad_end(tensor, padding) for name, tensor in case.call.tensors.items()}
        yield CheckCall(f"{case.name}, padded with {padding}", case.call.with_tensors(padded))


def _pad_end(tensor: torch.Tensor, padding: int) -> torch.Tensor:
    if tensor.is_floating_point() or tensor.is_complex() or not tensor.dim():
        return tensor
    padded = tensor.clone()
    padded[..., (tensor.shape[-1] + 1) // 2 :] = padding
    return padded


def _compare_ways(eager: EagerOracle, call: Call, tolerance: float) -> Iterator[tuple[bool, Difference | None]]:
    """Yield for each way to answer the call whether a position is padded, and how the answer differs where none is."""
    without = eager.answer(call)
    if without.drew:
        return
    expected = structure.tensors(without.outputs, "output")
    for way in (fast_paths.turned_on, fast_paths.padding_as_zeros):
        with way() as masks:
            answer = eager.answer(call)
        outputs = structure.map_tensors(
            answer.outputs, "output", lambda path, tensor: _leave_padding_out(expected.get(path), tensor, masks)
        )
        result = compare(without.outputs, outputs, tolerance, sides=_SIDES)
        same = result.agrees or eager.compare(call, without, replace(answer, outputs=outputs), tolerance).agrees
        yield any(bool(mask.any()) for mask in masks), None if same else result.difference


def _leave_padding_out(
    expected: torch.Tensor | None, tensor: torch.Tensor, masks: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Return the tensor with the expected values wherever the masks let it have others."""
    if expected is None or expected.shape != tensor.shape or expected.dtype != tensor.dtype:
        return tensor
    padded = torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    for mask in masks:
        for place in _places_of(mask, tensor.shape):
            padded |= place
    return torch.where(padded, expected, tensor)


def _places_of(mask: torch.Tensor, shape: Sequence[int]) -> Iterator[torch.Tensor]:
    """Yield where a tensor of this shape may show padding, as booleans that broadcast to the shape."""
    rows, length = mask.shape
    dims = range(len(shape))
    for dim in dims:
        if shape[dim] == rows:
            yield mask.all(1).reshape([rows if one == dim else 1 for one in dims])
    for first, second in permutations(dims, 2):
        if (shape[first], shape[second]) == (rows, length):
            oriented = mask if first < second else mask.T
            yield oriented.reshape([shape[one] if one in (first, second) else 1 for one in dims])
