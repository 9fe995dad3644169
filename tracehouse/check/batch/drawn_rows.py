"""Rows: single ones, each with values of its own, such as a model that takes the example is likely to take."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch

from tracehouse.check.inputs.probes import ValueBounds, is_mask

# Rows that differ from one another; a larger batch has them several times.
KINDS = 6
_NEAR = 0.1

Row = dict[str, torch.Tensor]
Draw = Callable[[torch.Tensor, int, np.random.Generator], torch.Tensor]
Change = Callable[[Row], Row]


def draw_rows(tensors: Mapping[str, torch.Tensor], dims: Mapping[str, int], seed: int) -> Iterator[list[Row]]:
    """Several rows at a time, the most unlike first, and then ever more like the example's. None that are all alike."""
    if not all(tensor.numel() for tensor in tensors.values()):
        return
    for draw in (_other, _near):
        rng = np.random.default_rng(seed)
        rows = [
            {path: draw(_row(tensor, dims[path], place), place, rng) for path, tensor in tensors.items()}
            for place in range(KINDS)
        ]
        if any(not is_same(row, rows[0]) for row in rows):
            yield rows


def join_rows(rows: Sequence[Row], dims: Mapping[str, int]) -> Row:
    return {path: torch.cat([row[path] for row in rows], dim) for path, dim in dims.items()}


def is_same(row: Row, other: Row) -> bool:
    return all(_same(tensor, other[path]) for path, tensor in row.items())


def make_intrusive_changes(ends: ValueBounds) -> list[tuple[str, Change]]:
    """Changes of a row, by their names, to what must not show in another one's answer."""
    return [
        ("numbers that are none", _floats(lambda tensor: torch.full_like(tensor, float("nan")))),
        ("infinities", _floats(lambda tensor: torch.full_like(tensor, float("inf")))),
        ("huge numbers", _floats(lambda tensor: torch.full_like(tensor, -torch.finfo(tensor.dtype).max / 4))),
        ("zeros", _floats(torch.zeros_like)),
        ("the largest integers", _integers(ends, 1)),
        ("the smallest integers", _integers(ends, 0)),
        ("booleans that are all true", _booleans(torch.ones_like)),
        ("booleans that are all false", _booleans(torch.zeros_like)),
    ]


def _row(tensor: torch.Tensor, dim: int, place: int) -> torch.Tensor:
    return tensor.detach().narrow(dim, place % tensor.shape[dim], 1).clone(memory_format=torch.contiguous_format)


def _other(row: torch.Tensor, place: int, rng: np.random.Generator) -> torch.Tensor:
    """Floats of both signs and of the row's size. Each second row has some of its own integers, or less of its mask."""
    if is_mask(row):
        return _shorter(row, place) if place % 2 else row
    if row.is_floating_point():
        size = float(row.double().nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()) or 1.0
        return torch.as_tensor(rng.standard_normal(tuple(row.shape)) * size).to(row)
    if not place % 2:
        return row
    values = row.cpu().numpy()
    if values.min() == values.max():  # one less, as of a length
        return torch.full_like(row, int(values.max()) - 1) if values.max() > 1 else row
    return torch.as_tensor(values.reshape(-1)[rng.integers(0, values.size, values.shape)]).to(row)


def _shorter(mask: torch.Tensor, place: int) -> torch.Tensor:
    """Without as many of its last ones as fit: the first one stays."""
    flat = mask.flatten()
    ones = (flat != 0).nonzero().flatten()[1:]
    cleared = torch.zeros(flat.shape, dtype=torch.bool, device=mask.device)
    cleared[ones[max(0, len(ones) - place) :]] = True
    return torch.where(cleared, torch.zeros_like(flat), flat).reshape(mask.shape)


def _near(row: torch.Tensor, _: int, rng: np.random.Generator) -> torch.Tensor:
    """Floats beside the row's own; nothing else moves."""
    if not row.is_floating_point() or is_mask(row):
        return row
    noise = torch.as_tensor(1 + _NEAR * rng.standard_normal(tuple(row.shape))).to(row)
    return row * noise


def _same(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(tensor, other) or (
        tensor.is_floating_point() and bool(tensor.isnan().all() & other.isnan().all())
    )


def _floats(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda row: {path: change(tensor) if tensor.is_floating_point() else tensor for path, tensor in row.items()}


def _booleans(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda row: {path: change(tensor) if tensor.dtype is torch.bool else tensor for path, tensor in row.items()}


def _integers(ends: ValueBounds, which: int) -> Change:
    def change(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point() or tensor.dtype is torch.bool:
            return tensor
        return torch.full_like(tensor, ends[path][which])

    return lambda row: {path: change(path, tensor) for path, tensor in row.items()}
