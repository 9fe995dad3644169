"""Shrinking: the smallest and simplest input that still shows a difference."""

import math
from collections.abc import Callable, Iterator

import torch

from tracehouse.check.size_groups import Groups
from tracehouse.contract.dims import solve
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call

CALLS_MAX = 200
# So few elements that are no zeros are made simple one by one.
_ELEMENTS_MAX = 16
_DIGITS = (0, 1, 2)

StillDiffers = Callable[[Call], bool]


def shrink(
    call: Call, groups: Groups | None, still_differs: StillDiffers, budget: Budget, *, calls_max: int = CALLS_MAX
) -> Call:
    """A call with sizes as small, and then with values as simple, as it still differs on.

    `still_differs` says whether it is the same difference, at sizes and on values that count; without groups, the sizes
    stay. The call itself differs.
    """
    search = _Search(call, still_differs, budget, calls_max)
    if groups is not None:
        _shrink_sizes(search, groups)
    for path in [*call.tensors]:
        _simplify(search, path)
    return search.call


class _Search:
    """The smallest call so far."""

    def __init__(self, call: Call, still_differs: StillDiffers, budget: Budget, calls: int) -> None:
        self.call = call
        self._still_differs = still_differs
        self._budget = budget
        self._calls_left = calls

    @property
    def is_over(self) -> bool:
        return self._calls_left <= 0 or self._budget.is_spent

    def tensor(self, path: str) -> torch.Tensor:
        return self.call.tensors[path]

    def takes(self, smaller: Call) -> bool:
        """Whether it differs too, and is the smallest from now on."""
        if self.is_over:
            return False
        self._calls_left -= 1
        if not self._still_differs(smaller):
            return False
        self.call = smaller
        return True

    def takes_tensor(self, path: str, simpler: torch.Tensor) -> bool:
        tensors = self.call.tensors
        if _same(simpler, tensors[path]):
            return False
        return self.takes(self.call.with_tensors({**tensors, path: simpler}))


def _shrink_sizes(search: _Search, groups: Groups) -> None:
    """Each symbol in turn, until none can be smaller."""
    shrunk = True
    while shrunk and not search.is_over:
        shrunk = False
        for symbol in groups.symbols:
            shrunk |= _shrink_symbol(search, groups, symbol)


def _shrink_symbol(search: _Search, groups: Groups, symbol: str) -> bool:
    sizes = _sizes(search.call, groups)
    if sizes is None:
        return False
    smaller = (
        call for size in _below(sizes[symbol]) for call in _of_size(search.call, groups, {**sizes, symbol: size})
    )
    return any(search.takes(call) for call in smaller)


def _sizes(call: Call, groups: Groups) -> dict[str, int] | None:
    tensors = call.tensors
    return solve([(shape, tensors[path].shape) for path, shape in groups.shapes.items()])


def _below(size: int) -> list[int]:
    """The smallest first, and then ever nearer."""
    return sorted({one for one in (1, 2, size // 2, size - size // 4, size - 1) if 0 < one < size})


def _of_size(call: Call, groups: Groups, sizes: dict[str, int]) -> Iterator[Call]:
    """The beginning of its values, their end, and what eager takes at those sizes."""
    try:
        shapes = groups.sizes(sizes)
    except ValueError:
        return
    tensors = call.tensors
    if all(all(map(int.__le__, shapes[path], tensor.shape)) for path, tensor in tensors.items() if path in shapes):
        for from_end in (False, True):
            cut = {path: _cut(tensors[path], shape, from_end) for path, shape in shapes.items()}
            yield call.with_tensors({**tensors, **cut})
    yield groups.resized(call, sizes, 0)


def _cut(tensor: torch.Tensor, shape: list[int], from_end: bool) -> torch.Tensor:
    parts = tuple(slice(was - size, was) if from_end else slice(size)
                  for was, size in zip(tensor.shape, shape, strict=True))  # fmt: skip
    return tensor[parts].clone(memory_format=torch.contiguous_format)


def _simplify(search: _Search, path: str) -> None:
    """Zeros, or few elements that are none, which then are simple numbers; where many count, all alike."""
    if not search.tensor(path).numel() or search.takes_tensor(path, torch.zeros_like(search.tensor(path))):
        return
    _clear(search, path)
    tensor = search.tensor(path)
    places = _nonzero(tensor)
    if len(places) > _ELEMENTS_MAX:
        _ = search.takes_tensor(path, torch.ones_like(tensor)) or search.takes_tensor(path, _alike(tensor))
    if tensor.is_floating_point():
        any(search.takes_tensor(path, _rounded(search.tensor(path), digits)) for digits in _DIGITS)
    for place in places if len(places) <= _ELEMENTS_MAX else ():
        _simplify_element(search, path, place)


def _clear(search: _Search, path: str) -> None:
    """Make zeros of halves, quarters, and so on, where it differs without them."""
    places = _nonzero(search.tensor(path))
    size = max(1, len(places) // 2)
    while places and not search.is_over:
        for start in range(0, len(places), size):
            search.takes_tensor(path, _cleared(search.tensor(path), places[start : start + size]))
        if size == 1:
            return
        places = _nonzero(search.tensor(path))
        size = max(1, min(size, len(places)) // 2)


def _simplify_element(search: _Search, path: str, place: int) -> None:
    """An integer in several steps."""
    simpler = True
    while simpler:
        tensor = search.tensor(path)
        values = _simpler(tensor.flatten()[place].item())
        simpler = any(search.takes_tensor(path, _set(tensor, place, value)) for value in values)


def _simpler(value: float) -> list[float]:
    """The simplest first. An integer comes nearer to 0."""
    sign = -1 if value < 0 else 1
    if isinstance(value, int):
        size = abs(value)
        return [sign * one for one in (1, 2, size // 2, size - size // 4, size - 1) if 0 < one < size]
    if not math.isfinite(value) or abs(value) in (0.0, 1.0):
        return []
    rounded = [round(value, digits) for digits in _DIGITS]
    return [float(sign), *rounded[: rounded.index(value) if value in rounded else None]]


def _alike(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_full(tensor.shape, tensor.flatten()[0].item())


def _rounded(tensor: torch.Tensor, digits: int) -> torch.Tensor:
    return tensor.double().round(decimals=digits).to(tensor.dtype)


def _nonzero(tensor: torch.Tensor) -> list[int]:
    places: list[int] = (tensor.flatten() != 0).nonzero().flatten().tolist()
    return places


def _cleared(tensor: torch.Tensor, places: list[int]) -> torch.Tensor:
    kept = torch.ones(tensor.numel(), dtype=torch.bool, device=tensor.device)
    kept[places] = False
    return torch.where(kept.reshape(tensor.shape), tensor, torch.zeros_like(tensor))


def _set(tensor: torch.Tensor, place: int, value: float) -> torch.Tensor:
    flat = tensor.flatten().clone()
    flat[place] = value
    return flat.reshape(tensor.shape)


def _same(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """NaN is NaN."""
    if not tensor.is_floating_point():
        return torch.equal(tensor, other)
    return bool(torch.isclose(tensor, other, rtol=0, atol=0, equal_nan=True).all())
