"""Data sizes: the sizes of results that follow from values, such as how many elements of a mask are true.

Such a size is a symbol of which nothing is known but its bounds. Two results have the same one if the same values
decide both: `x[mask]` and `mask.nonzero()`, for example. A proof that needs to know more of it is none.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

# Returns the size that these parts of a key decide, between 0 and a largest one.
MakeSize = Callable[[Sequence[Any], Any], Any]
_Rule = Callable[[MakeSize, Sequence[Any]], Any]

_aten = torch.ops.aten
# No tensor has more elements.
LARGEST = 2**40


def has_rule(func: Any) -> bool:
    """Whether values decide the sizes of what the operator returns, for some operands."""
    return func in _RULES


def decides_size(func: Any, args: Sequence[Any]) -> bool:
    """Whether values may decide the sizes of what a call of the operator returns."""
    return has_rule(func) and (func not in _INDEXING or any(map(_is_mask, args[1])))


def run_operator(func: Any, args: Sequence[Any], make_size: MakeSize) -> Any:
    """Return the outputs of an operator that has a rule; None for a call of which values decide no size."""
    return _RULES[func](make_size, args)


def packed_rows(batch_sizes: torch.Tensor) -> Sequence[Any]:
    """Return what decides how many rows a packed sequence has: the first of its batch sizes is that number."""
    return ["packed rows", batch_sizes]


def _nonzero(make_size: MakeSize, args: Sequence[Any]) -> Any:
    tensor = args[0]
    count = _count(make_size, tensor)
    return torch.empty_strided([count, tensor.dim()], [1, count], dtype=torch.int64, device=tensor.device)


def _index(make_size: MakeSize, args: Sequence[Any]) -> Any:
    """Index by positions in the place of masks; None if there is no mask."""
    tensor, indices = args
    if not any(map(_is_mask, indices)):
        return None
    positions: list[Any] = []
    for one in indices:
        if _is_mask(one):
            position = torch.empty([_count(make_size, one)], dtype=torch.int64, device=one.device)
            positions += [position] * one.dim()
        else:
            positions.append(one)
    return _aten.index.Tensor(tensor, positions)


def _index_put(_: MakeSize, args: Sequence[Any]) -> Any:
    return torch.empty_like(args[0]) if any(map(_is_mask, args[1])) else None


def _index_put_in_place(_: MakeSize, args: Sequence[Any]) -> Any:
    return args[0] if any(map(_is_mask, args[1])) else None


def _masked_select(make_size: MakeSize, args: Sequence[Any]) -> Any:
    tensor, mask = args
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    key = ["true elements", mask] if len(shape) == mask.dim() else ["true elements", mask, *shape]
    return tensor.new_empty([make_size(key, _product(shape))])


def _unique(make_size: MakeSize, args: Sequence[Any]) -> Any:
    tensor, _, has_inverse, has_counts = [*args, True, False, False][: max(4, len(args))][:4]
    count = make_size(["different elements", tensor], tensor.numel())
    inverse = tensor.new_empty(tensor.shape if has_inverse else [0], dtype=torch.int64)
    return tensor.new_empty([count]), inverse, tensor.new_empty([count if has_counts else 0], dtype=torch.int64)


def _unique_rows(make_size: MakeSize, args: Sequence[Any]) -> Any:
    """Return the different rows, the place of each among them, and how often each is there; None for another dim."""
    tensor, dim = args[:2]
    if dim % tensor.dim():
        return None
    count = make_size(["different rows", tensor], tensor.shape[0])
    rows, places, counts = [count, *tensor.shape[1:]], [tensor.shape[0]], [count]
    return tensor.new_empty(rows), *(tensor.new_empty(shape, dtype=torch.int64) for shape in (places, counts))


def _repeat_interleave(make_size: MakeSize, args: Sequence[Any]) -> Any:
    """Return as many positions as the repeats say together; None for a call that gives their number."""
    return args[0].new_empty([make_size(["sum", args[0]], LARGEST)]) if len(args) == 1 else None


def _bincount(make_size: MakeSize, args: Sequence[Any]) -> Any:
    """Return a count for each integer from 0 to the largest, and at least `minlength` of them."""
    defaults: list[Any] = [None, 0]
    tensor, weights, least = [*args, *defaults[len(args) - 1 :]]
    further = make_size(["bins beyond", tensor, least], LARGEST)
    dtype = torch.int64 if weights is None else torch.float32 if weights.dtype is torch.float32 else torch.float64
    return tensor.new_empty([least + further], dtype=dtype)


def _pack(make_size: MakeSize, args: Sequence[Any]) -> Any:
    """Pack the rows, of which each has at least one step, into one sequence."""
    padded, lengths, batch_first = args
    rows, steps, *rest = padded.shape if batch_first else (padded.shape[1], padded.shape[0], *padded.shape[2:])
    if lengths.dim() != 1 or padded.dim() < 2:
        return None
    if lengths.shape[0] != rows:
        raise ValueError("there must be one length for each row")
    is_one_step = type(steps) is int and steps == 1
    longest = 1 if is_one_step else 1 + make_size(["steps beyond the first", lengths], steps - 1)
    packed = rows if is_one_step else rows + make_size(["packed beyond the first", lengths], rows * (steps - 1))
    return padded.new_empty([packed, *rest]), lengths.new_empty([longest], dtype=torch.int64)


def unpack(make_size: MakeSize, args: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of a packed sequence, padded to one length, and the length of each."""
    packed, batch_sizes, batch_first, _, least = args
    rows, steps = make_size(packed_rows(batch_sizes), LARGEST), batch_sizes.shape[0]
    # torch takes 0 and less for no length at all.
    if least > 0:
        if least < steps:
            raise ValueError("the length must be that of the longest row or more")
        steps = least
    padded = packed.new_empty([steps, rows, *packed.shape[1:]])
    return padded.transpose(0, 1) if batch_first else padded, batch_sizes.new_empty([rows])


def _count(make_size: MakeSize, mask: torch.Tensor) -> Any:
    return make_size(["true elements", mask], mask.numel())


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _product(sizes: Sequence[Any]) -> Any:
    product: Any = 1
    for size in sizes:
        product = product * size
    return product


_INDEXING = (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default)
_RULES: dict[Any, _Rule] = {
    _aten.nonzero.default: _nonzero,
    _aten.index.Tensor: _index,
    _aten.index_put.default: _index_put,
    _aten.index_put_.default: _index_put_in_place,
    _aten.masked_select.default: _masked_select,
    _aten._unique2.default: _unique,
    _aten.unique_dim.default: _unique_rows,
    _aten.bincount.default: _bincount,
    _aten.repeat_interleave.Tensor: _repeat_interleave,
    _aten._pack_padded_sequence.default: _pack,
    _aten._pad_packed_sequence.default: unpack,
}
