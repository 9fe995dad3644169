"""Value changes: what a probe changes in a tensor. Each change has a name.

A change keeps the tensor's shape and datatype. Most apply to one kind of tensor and copy any other.
"""

from collections.abc import Callable

import torch

from tracehouse.torch_values.signed_types import SIGNED_TYPES, view_as_signed

Change = Callable[[torch.Tensor], torch.Tensor]


def _change_floats(change: Change) -> Change:
    """Return a change that applies to floats and copies all else."""
    return lambda tensor: change(tensor) if tensor.is_floating_point() else tensor.clone()


def _change_integers(change: Change) -> Change:
    """Return a change that applies to integers and copies all else."""
    # Complex tensors do not come here, because no input may have their datatype.
    return lambda tensor: tensor.clone() if tensor.is_floating_point() or is_bool(tensor) else change(tensor)


def _change_booleans(change: Change) -> Change:
    """Return a change that applies to booleans and copies all else."""
    return lambda tensor: change(tensor) if is_bool(tensor) else tensor.clone()


def _reverse(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values in reverse order, so that each value stays one that the model accepts."""
    return view_as_signed(tensor.flatten()).flip(0).view(tensor.dtype).reshape(tensor.shape)


def _fill_smallest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_full(tensor.shape, find_extremes(tensor)[0])


def _fill_largest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_full(tensor.shape, find_extremes(tensor)[1])


def _change_constant(tensor: torch.Tensor) -> torch.Tensor:
    """Change integers that are all equal: zeros to ones and ones to zeros, as in a mask, and others to one more."""
    smallest, largest = find_extremes(tensor)
    return tensor.new_full(tensor.shape, _pick_neighbour(tensor, largest)) if smallest == largest else tensor.clone()


def _decrement_constant(tensor: torch.Tensor) -> torch.Tensor:
    smallest, largest = find_extremes(tensor)
    constant = smallest == largest and smallest - 1 >= torch.iinfo(tensor.dtype).min
    return tensor.new_full(tensor.shape, smallest - 1) if constant else tensor.clone()


def _pick_neighbour(tensor: torch.Tensor, value: int) -> int:
    if value in (0, 1):
        return 1 - value
    return value + 1 if value < torch.iinfo(tensor.dtype).max else value - 1


def _change_at(place: int, other: Callable[[torch.Tensor, int | float | bool], int | float | bool]) -> Change:
    """Return a change of one element alone, to what `other` returns for the tensor and the element's value."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        changed = tensor.clone(memory_format=torch.contiguous_format)
        if tensor.numel():
            flat = changed.flatten()
            value = flat[place].item()
            flat[place] = other(tensor, value)
            changed = flat.reshape(tensor.shape)
        return changed

    return change


def _pick_other_integer(tensor: torch.Tensor, value: int | float | bool) -> int:
    """Return another integer, within the tensor's own range if its elements differ."""
    smallest, largest = find_extremes(tensor)
    if smallest == largest:
        return _pick_neighbour(tensor, smallest)
    return smallest if value == largest else largest


def _pick_other_number(tensor: torch.Tensor, value: int | float | bool) -> int | float | bool:
    if tensor.is_floating_point():
        return value + 1.0
    return not value if is_bool(tensor) else _pick_other_integer(tensor, value)


def find_extremes(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the smallest and the largest element as integers; (0, 0) for an empty tensor."""
    values = tensor.cpu().numpy()  # torch has no min and max of its larger unsigned integers
    return (int(values.min()), int(values.max())) if tensor.numel() else (0, 0)


def _change_masks(change: Change) -> Change:
    """Return a change that applies to masks of any datatype and copies all else."""

    def change_mask(tensor: torch.Tensor) -> torch.Tensor:
        return change(tensor).to(tensor.dtype) if is_mask(tensor) else tensor.clone()

    return change_mask


def is_mask(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds only zeros and ones, whatever its datatype. Scalars and empty tensors are no masks."""
    if tensor.dim() == 0 or not tensor.numel():
        return False
    return is_bool(tensor) or bool(((tensor == 0) | (tensor == 1)).all())


def _index_last_dim(tensor: torch.Tensor) -> torch.Tensor:
    """Return each element's index in the last dim."""
    return torch.arange(tensor.shape[-1], device=tensor.device).expand(tensor.shape)


def _pad_right(tensor: torch.Tensor) -> torch.Tensor:
    return _index_last_dim(tensor) < max(1, tensor.shape[-1] // 2)


def _pad_left(tensor: torch.Tensor) -> torch.Tensor:
    return _index_last_dim(tensor) >= tensor.shape[-1] // 2


def _pad_ragged(tensor: torch.Tensor) -> torch.Tensor:
    """Return a mask that is padded on the right, in each row further than in the one before."""
    rows = torch.arange(tensor[..., 0].numel(), device=tensor.device).reshape(tensor.shape[:-1])
    return _index_last_dim(tensor) < (tensor.shape[-1] - rows % tensor.shape[-1])[..., None]


def _pad_causally(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() < 2:
        return tensor
    rows = torch.arange(tensor.shape[-2], device=tensor.device)[:, None]
    return (_index_last_dim(tensor) <= rows).expand(tensor.shape)


def _pad_to_one_token(tensor: torch.Tensor) -> torch.Tensor:
    return _index_last_dim(tensor) == 0


def _roll_rows(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 0 or tensor.dtype in SIGNED_TYPES:
        return tensor.clone()
    return tensor.roll(1, 0)


def _repeat_first_row(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 0 or not tensor.numel():
        return tensor.clone()
    return tensor[:1].expand(tensor.shape).clone(memory_format=torch.contiguous_format)


def _repeat_first_element(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel():
        return tensor.clone()
    return tensor.flatten()[0].expand(tensor.shape).clone(memory_format=torch.contiguous_format)


def _make_one_hot(tensor: torch.Tensor) -> torch.Tensor:
    hot = torch.zeros_like(tensor)
    if tensor.dim() and tensor.numel():
        hot[..., tensor.shape[-1] // 2] = 1.0
    return hot


def _fill(value: Callable[[torch.finfo], float]) -> Change:
    """Return a change of floats to one number of their datatype; each keeps its sign."""
    return lambda tensor: torch.full_like(tensor, value(torch.finfo(tensor.dtype))).copysign(tensor)


def is_bool(tensor: torch.Tensor) -> bool:
    """Whether the tensor's datatype is torch.bool."""
    return tensor.dtype is torch.bool


def _move_from_zero(tensor: torch.Tensor) -> torch.Tensor:
    """Return values with a mean so large that half of their digits are left for what differs."""
    mean: float = torch.finfo(tensor.dtype).eps ** -0.5
    return tensor + mean


def _move_as_far_as_digits_reach(tensor: torch.Tensor) -> torch.Tensor:
    """Return values with a mean so large that three bits are left for what differs.

    A model that computes in a larger datatype than its inputs' still has it right.
    """
    mean: float = 0.125 / torch.finfo(tensor.dtype).eps
    return tensor + mean


def _alternate_far_from_zero(tensor: torch.Tensor) -> torch.Tensor:
    """Return large values whose signs alternate along the last dim, so that they cancel where they are added."""
    if tensor.dim() == 0:
        return tensor.clone()
    return torch.where(_index_last_dim(tensor) % 2 == 0, 1, -1) * _move_from_zero(tensor)


# For every model.
CHANGES: list[tuple[str, Change]] = [
    ("negated", _change_floats(torch.neg)),
    ("zeros", _change_floats(torch.zeros_like)),
    ("reversed order", _reverse),
    ("other constants", _change_integers(_change_constant)),
    ("booleans flipped", _change_booleans(torch.logical_not)),
    ("huge", _change_floats(lambda tensor: tensor * 1e4)),
]

# Also for a model that reads values in Python, and so may branch on them.
SEARCHING_CHANGES: list[tuple[str, Change]] = [
    ("ten times as large", _change_floats(lambda tensor: tensor * 10)),
    ("smallest integers", _change_integers(_fill_smallest)),
    ("largest integers", _change_integers(_fill_largest)),
    ("booleans all true", _change_booleans(torch.ones_like)),
    ("first element changed", _change_at(0, _pick_other_number)),
    ("last element changed", _change_at(-1, _pick_other_number)),
    ("tiny", _change_floats(lambda tensor: tensor * 1e-4)),
    ("one less", _change_integers(_decrement_constant)),
    ("one not a number", _change_floats(_change_at(0, lambda *_: float("nan")))),
    ("one infinite", _change_floats(_change_at(0, lambda *_: float("inf")))),
    ("one infinite and negative", _change_floats(_change_at(-1, lambda *_: float("-inf")))),
    ("all equal", _change_floats(_repeat_first_element)),
    ("one-hot", _change_floats(_make_one_hot)),
    ("rows in another order", _roll_rows),
    ("masks padded right", _change_masks(_pad_right)),
    ("masks padded left", _change_masks(_pad_left)),
    ("masks of one token", _change_masks(_pad_to_one_token)),
    ("masks all ones", _change_masks(torch.ones_like)),
    ("masks all zeros", _change_masks(torch.zeros_like)),
]

# Also if the request asks for deep probes.
DEEP_CHANGES: list[tuple[str, Change]] = [
    ("masks causal", _change_masks(_pad_causally)),
    ("masks padded right, each row further", _change_masks(_pad_ragged)),
    ("rows alike", _repeat_first_row),
    ("ones", _change_floats(torch.ones_like)),
    ("minus ones", _change_floats(lambda tensor: -torch.ones_like(tensor))),
    ("whole numbers", _change_floats(torch.round)),
    ("absolute", _change_floats(torch.abs)),
    ("all negative", _change_floats(lambda tensor: -tensor.abs())),
    ("one more", _change_floats(lambda tensor: tensor + 1)),
    ("a hundred times as small", _change_floats(lambda tensor: tensor / 100)),
    ("one huge", _change_floats(_change_at(0, lambda tensor, _: torch.finfo(tensor.dtype).max / 4))),
    ("largest numbers", _change_floats(_fill(lambda kind: kind.max))),
    ("smallest numbers", _change_floats(_fill(lambda kind: kind.tiny))),
    ("denormal numbers", _change_floats(_fill(lambda kind: kind.tiny / 4))),
    ("none a number", _change_floats(lambda tensor: torch.full_like(tensor, float("nan")))),
    ("all infinite", _change_floats(_fill(lambda _: float("inf")))),
    ("last not a number", _change_floats(_change_at(-1, lambda *_: float("nan")))),
    (
        "last element one less",
        _change_integers(_change_at(-1, lambda tensor, value: max(torch.iinfo(tensor.dtype).min, int(value) - 1))),
    ),
]

# Numbers that two computations round otherwise show on these, and branches on values take another side.
WITNESS_CHANGES: list[tuple[str, Change]] = [
    ("far from zero", _change_floats(_move_from_zero)),
    ("so far from zero that three bits are left", _change_floats(_move_as_far_as_digits_reach)),
    ("far from zero, signs alternate", _change_floats(_alternate_far_from_zero)),
    ("negated", _change_floats(torch.neg)),
    ("zeros", _change_floats(torch.zeros_like)),
    ("huge", _change_floats(lambda tensor: tensor * 1e4)),
]

# For one input alone, so that inputs which were equal differ.
ALONE_CHANGES: list[tuple[str, Change]] = [("first element changed", _change_at(0, _pick_other_number))]
