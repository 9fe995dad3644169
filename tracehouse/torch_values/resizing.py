"""Resizing: a tensor of another shape, with values like those of a given tensor."""

from collections.abc import Sequence

import torch

from tracehouse.torch_values.signed_types import SIGNED_TYPES, view_as_signed

# The noise's standard deviation, relative to the mean magnitude of the values. Chosen: values stay like the example's.
_NOISE = 0.01
# So much noise is drawn, and repeated in larger tensors. A prime, so that hardly any tensor has rows of equal noise.
_NOISE_ELEMENTS = 65_521
_FIRST = 64  # elements: most floats that are no mask show it in so many
_SORTED_MAX = 2**16  # elements: larger tensors are taken for data, and not searched


def resize(tensor: torch.Tensor, shape: Sequence[int], seed: int) -> torch.Tensor:
    """Return a tensor of `shape`, which has as many dims as the tensor: values are repeated or cut off.

    Floats then get a little noise within the range of their values, unless they look like a mask. A sorted 1-d integer
    tensor stays sorted. `seed` decides the noise.
    """
    resized = tensor.detach()
    # The dims that become smaller come first: a hundred rows of a large image may not fit, nor be needed.
    for place, size in sorted(enumerate(shape), key=lambda dim: dim[1] > tensor.shape[dim[0]]):
        if size != resized.shape[place]:
            resized = resize_dim(resized, place, size)
    if resized is tensor or tuple(shape) == tuple(tensor.shape):
        resized = tensor.detach().clone()
    resized = resized.contiguous()
    if resized.is_floating_point():
        return _add_noise(resized, tensor.detach(), seed)
    return _keep_order(resized, tensor)


def fit_to_size(tensor: torch.Tensor, was: int, size: int) -> torch.Tensor:
    """Return integers that described the size `was`, as lengths or indices, changed such that they describe `size`.

    A value equal to `was` becomes `size`. Other lengths are limited to `size`, indices to `size - 1`.
    """
    most = int(tensor.max()) if tensor.numel() else 0
    limited = tensor.clamp(max=size if most >= was else max(size - 1, 0))
    return torch.where(tensor == was, torch.full_like(tensor, size), limited)


def may_describe_size(tensor: torch.Tensor, size: int) -> bool:
    """Whether a tensor has integers that could be lengths up to `size`, or indices below it."""
    whole = not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype is not torch.bool
    if not whole or not 0 < tensor.numel() <= _SORTED_MAX or tensor.dtype in SIGNED_TYPES:
        return False
    return bool(tensor.min() >= 0) and 0 < int(tensor.max()) <= size


def take(tensor: torch.Tensor, places: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """Return the values at these indices (1-d) along a dim, as torch.index_select does, but for every dtype."""
    return view_as_signed(tensor).index_select(dim, places).view(tensor.dtype)


def is_mask(tensor: torch.Tensor) -> bool:
    """Whether a float tensor holds only zeros, ones, infinities and lowest values, and not all of them are equal."""
    values = tensor.flatten()
    if not len(values) or not _has_marks_alone(values[:_FIRST]) or not _has_marks_alone(values):
        return False
    return not bool((values == values[0]).all())


def _has_marks_alone(values: torch.Tensor) -> bool:
    marks = (values == 0) | (values == 1) | values.isinf() | (values <= torch.finfo(values.dtype).min / 2)
    return bool(marks.all())


def resize_dim(tensor: torch.Tensor, place: int, size: int) -> torch.Tensor:
    """Return the tensor with `size` entries in the dim `place`: its values are repeated or cut off.

    An empty dim is filled with zeros.
    """
    old = tensor.shape[place]
    if old == 0:
        shape = [*tensor.shape[:place], size, *tensor.shape[place + 1 :]]
        return tensor.new_zeros(shape)
    return take(tensor, torch.arange(size, device=tensor.device) % old, place)


def _add_noise(values: torch.Tensor, like: torch.Tensor, seed: int) -> torch.Tensor:
    """Return `values` with normal noise, clamped to the range of `like`; a mask stays as it is.

    `values` repeat those of `like`, and are nobody else's.
    """
    is_finite = like.isfinite()
    is_all_finite = bool(is_finite.all())
    finite = like if is_all_finite else like[is_finite]
    if finite.numel() == 0 or is_mask(like):
        return values
    low, high = finite.min(), finite.max()
    scale = max(float(finite.double().abs().mean()), 1e-3)
    kept = None if is_all_finite else values.clone()
    moved = values if values.dtype is torch.float64 else values.float()
    _add_repeated(moved.view(-1), _draw_noise(values.numel(), seed) * scale)
    if low < high:
        moved.clamp_(low.to(moved), high.to(moved))
    moved = moved.to(values.dtype)
    return moved if kept is None else torch.where(kept.isfinite(), moved, kept)


def _draw_noise(elements: int, seed: int) -> torch.Tensor:
    return torch.randn(min(elements, _NOISE_ELEMENTS), generator=torch.Generator().manual_seed(seed)) * _NOISE


def _add_repeated(values: torch.Tensor, noise: torch.Tensor) -> None:
    """Add the noise to the values (1-d) in place, repeated to their end."""
    if len(values):
        noise = noise.to(values)
        whole = len(values) // len(noise) * len(noise)
        values[:whole].view(-1, len(noise)).add_(noise)
        values[whole:].add_(noise[: len(values) - whole])


def _keep_order(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Sort `values` if `like` is sorted, as lengths may have to be."""
    if (
        values.dim() != 1
        or values.dtype in SIGNED_TYPES
        or values.dtype is torch.bool
        or values.is_complex()
        or like.numel() < 2
    ):
        return values
    steps = like.diff()
    if bool((steps <= 0).all()):
        return values.sort(descending=True).values
    return values.sort().values if bool((steps >= 0).all()) else values
