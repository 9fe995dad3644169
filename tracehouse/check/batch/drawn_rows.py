"""Drawn rows: different rows, each of which a model that accepts the example is likely to accept."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch

from tracehouse.check.inputs.probes import ValueBounds
from tracehouse.check.inputs.value_changes import is_mask

# So many different rows are drawn, and a larger batch repeats them. A choice.
KINDS = 6
_NEAR = 0.1  # the relative standard deviation of the noise on rows that are like the example's; a choice

Row = dict[str, torch.Tensor]  # one row of each input, by path; its size along the dim of rows is 1
Draw = Callable[[torch.Tensor, int, np.random.Generator], torch.Tensor]
Change = Callable[[Row], Row]


def draw_rows(tensors: Mapping[str, torch.Tensor], dims: Mapping[str, int], seed: int) -> Iterator[list[Row]]:
    """Yield sets of KINDS rows: first rows unlike the example's, then rows near them.

    `dims` has the dim along which each input has its rows, and each row keeps the input's shape but for size 1 there. A
    set of rows that are all equal is left out. There are none if an input is empty.
    """
    if not all(tensor.numel() for tensor in tensors.values()):
        return
    for draw in (_draw_other, _draw_near):
        rng = np.random.default_rng(seed)
        rows = [
            {path: draw(_take_row(tensor, dims[path], place), place, rng) for path, tensor in tensors.items()}
            for place in range(KINDS)
        ]
        if any(not is_same_row(row, rows[0]) for row in rows):
            yield rows


def join_rows(rows: Sequence[Row], dims: Mapping[str, int]) -> Row:
    """Return the inputs that have these rows, joined along `dims`: each such dim has as many entries as rows."""
    return {path: torch.cat([row[path] for row in rows], dim) for path, dim in dims.items()}


def is_same_row(row: Row, other: Row) -> bool:
    """Whether two rows are equal; two tensors of NaN alone are equal."""
    return all(_is_same_tensor(tensor, other[path]) for path, tensor in row.items())


def make_intrusive_changes(bounds: ValueBounds) -> list[tuple[str, Change]]:
    """Return named changes of a row to extreme values, which must not change the answer to another row.

    `bounds` has the smallest and the largest integer of each input of integers.
    """
    return [
        ("NaNs", _change_floats(lambda tensor: torch.full_like(tensor, float("nan")))),
        ("infinities", _change_floats(lambda tensor: torch.full_like(tensor, float("inf")))),
        ("huge numbers", _change_floats(lambda tensor: torch.full_like(tensor, -torch.finfo(tensor.dtype).max / 4))),
        ("zeros", _change_floats(torch.zeros_like)),
        ("the largest integers", _change_integers(bounds, 1)),
        ("the smallest integers", _change_integers(bounds, 0)),
        ("booleans that are all true", _change_booleans(torch.ones_like)),
        ("booleans that are all false", _change_booleans(torch.zeros_like)),
    ]


def _take_row(tensor: torch.Tensor, dim: int, place: int) -> torch.Tensor:
    return tensor.detach().narrow(dim, place % tensor.shape[dim], 1).clone(memory_format=torch.contiguous_format)


def _draw_other(row: torch.Tensor, place: int, rng: np.random.Generator) -> torch.Tensor:
    """Draw normal floats with the row's root mean square; in each second row, resample integers and shorten masks."""
    if is_mask(row):
        return _shorten(row, place) if place % 2 else row
    if row.is_floating_point():
        size = float(row.double().nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()) or 1.0
        return torch.as_tensor(rng.standard_normal(tuple(row.shape)) * size).to(row)
    if not place % 2:
        return row
    values = row.cpu().numpy()
    if values.min() == values.max():  # one less, which suits a length
        return torch.full_like(row, int(values.max()) - 1) if values.max() > 1 else row
    return torch.as_tensor(values.reshape(-1)[rng.integers(0, values.size, values.shape)]).to(row)


def _shorten(mask: torch.Tensor, place: int) -> torch.Tensor:
    """Return the mask without its last `place` ones; the first one stays."""
    flat = mask.flatten()
    ones = (flat != 0).nonzero().flatten()[1:]
    cleared = torch.zeros(flat.shape, dtype=torch.bool, device=mask.device)
    cleared[ones[max(0, len(ones) - place) :]] = True
    return torch.where(cleared, torch.zeros_like(flat), flat).reshape(mask.shape)


def _draw_near(row: torch.Tensor, _: int, rng: np.random.Generator) -> torch.Tensor:
    """Draw floats near the row's own; all else stays."""
    if not row.is_floating_point() or is_mask(row):
        return row
    noise = torch.as_tensor(1 + _NEAR * rng.standard_normal(tuple(row.shape))).to(row)
    return row * noise


def _is_same_tensor(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(tensor, other) or (
        tensor.is_floating_point() and bool(tensor.isnan().all() & other.isnan().all())
    )


def _change_floats(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda row: {path: change(tensor) if tensor.is_floating_point() else tensor for path, tensor in row.items()}


def _change_booleans(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda row: {path: change(tensor) if tensor.dtype is torch.bool else tensor for path, tensor in row.items()}


def _change_integers(bounds: ValueBounds, which: int) -> Change:
    def change(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point() or tensor.dtype is torch.bool:
            return tensor
        return torch.full_like(tensor, bounds[path][which])

    return lambda row: {path: change(path, tensor) for path, tensor in row.items()}
