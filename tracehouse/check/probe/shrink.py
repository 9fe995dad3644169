"""Shrink: it searches for the smallest and simplest input on which two models still differ.

Halves are cleared first, then quarters and so on, as in delta debugging (Zeller and Hildebrandt, 2002).
"""

import math
from collections.abc import Callable, Iterator

import torch

from tracehouse.check.size_groups import Groups
from tracehouse.contract.dims import solve
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.torch_values.signed_types import view_as_signed

# The bounds are choices: a person reads the result, and each step costs a call of both models.
CALLS_MAX = 200
_ELEMENTS_MAX = 16  # if at most so many elements are not zero, each is simplified by itself
_DIGITS = (0, 1, 2)  # numbers are rounded to so many decimals

StillDiffers = Callable[[Call], bool]


def shrink(
    call: Call, groups: Groups | None, still_differs: StillDiffers, budget: Budget, *, calls_max: int = CALLS_MAX
) -> Call:
    """Return the call with the smallest sizes, and then the simplest values, found on which the models still differ.

    `still_differs` says whether a call shows the same difference; `call` itself must. It is called at most `calls_max`
    times, and not after the budget is spent. Without `groups` the shapes stay. Datatypes and ranks always stay.
    Whatever `still_differs` raises comes out.
    """
    search = _Search(call, still_differs, budget, calls_max)
    if groups is not None:
        _shrink_sizes(search, groups)
    for path in [*call.tensors]:
        _simplify(search, path)
    return search.call


class _Search:
    """The smallest call found so far."""

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

    def try_call(self, smaller: Call) -> bool:
        """Whether the models differ on this call too. If so, it becomes the smallest call."""
        if self.is_over:
            return False
        self._calls_left -= 1
        if not self._still_differs(smaller):
            return False
        self.call = smaller
        return True

    def try_tensor(self, path: str, simpler: torch.Tensor) -> bool:
        tensors = self.call.tensors
        if _is_equal(simpler, tensors[path]):
            return False
        return self.try_call(self.call.with_tensors({**tensors, path: simpler}))


def _shrink_sizes(search: _Search, groups: Groups) -> None:
    """Shrink each symbol in turn, until none can be smaller."""
    is_smaller = True
    while is_smaller and not search.is_over:
        is_smaller = False
        for symbol in groups.symbols:
            is_smaller |= _shrink_symbol(search, groups, symbol)


def _shrink_symbol(search: _Search, groups: Groups, symbol: str) -> bool:
    sizes = _solve_sizes(search.call, groups)
    if sizes is None:
        return False
    smaller = (
        call for size in _propose_sizes(sizes[symbol]) for call in _resize(search.call, groups, {**sizes, symbol: size})
    )
    return any(search.try_call(call) for call in smaller)


def _solve_sizes(call: Call, groups: Groups) -> dict[str, int] | None:
    tensors = call.tensors
    return solve([(shape, tensors[path].shape) for path, shape in groups.shapes.items()])


def _propose_sizes(size: int) -> list[int]:
    """Return smaller sizes in rising order: 1, 2, the half, three quarters, and one less."""
    return sorted({one for one in (1, 2, size // 2, size - size // 4, size - 1) if 0 < one < size})


def _resize(call: Call, groups: Groups, sizes: dict[str, int]) -> Iterator[Call]:
    """Yield the call at these sizes: with the beginning of its values, with their end, and with resized values.

    The first two come only if no dim grows.
    """
    try:
        shapes = groups.sizes(sizes)
    except ValueError:
        return
    tensors = call.tensors
    if all(all(map(int.__le__, shapes[path], tensor.shape)) for path, tensor in tensors.items() if path in shapes):
        for from_end in (False, True):
            cut = {path: _cut(tensors[path], shape, from_end) for path, shape in shapes.items()}
            yield call.with_tensors({**tensors, **cut})
    yield groups.resize(call, sizes, 0)


def _cut(tensor: torch.Tensor, shape: list[int], from_end: bool) -> torch.Tensor:
    slices = tuple(slice(was - size, was) if from_end else slice(size)
                  for was, size in zip(tensor.shape, shape, strict=True))  # fmt: skip
    return tensor[slices].clone(memory_format=torch.contiguous_format)


def _simplify(search: _Search, path: str) -> None:
    """Simplify an input: to zeros if that is enough, else to few nonzero elements with simple values.

    If many elements stay nonzero, they are made equal.
    """
    if not search.tensor(path).numel() or search.try_tensor(path, torch.zeros_like(search.tensor(path))):
        return
    _clear(search, path)
    tensor = search.tensor(path)
    places = _find_nonzero(tensor)
    if len(places) > _ELEMENTS_MAX:
        _ = search.try_tensor(path, torch.ones_like(tensor)) or search.try_tensor(path, _make_alike(tensor))
    if tensor.is_floating_point():
        any(search.try_tensor(path, _round(search.tensor(path), digits)) for digits in _DIGITS)
    for place in places if len(places) <= _ELEMENTS_MAX else ():
        _simplify_element(search, path, place)


def _clear(search: _Search, path: str) -> None:
    """Set halves of the elements to zero, then quarters and so on, as long as the models still differ."""
    places = _find_nonzero(search.tensor(path))
    size = max(1, len(places) // 2)
    while places and not search.is_over:
        for start in range(0, len(places), size):
            search.try_tensor(path, _clear_places(search.tensor(path), places[start : start + size]))
        if size == 1:
            return
        places = _find_nonzero(search.tensor(path))
        size = max(1, min(size, len(places)) // 2)


def _simplify_element(search: _Search, path: str, place: int) -> None:
    """Simplify one element, in several steps if it is an integer."""
    simpler = True
    while simpler:
        tensor = search.tensor(path)
        values = _propose_numbers(tensor.flatten()[place].item())
        simpler = any(search.try_tensor(path, _set_element(tensor, place, value)) for value in values)


def _propose_numbers(value: float) -> list[float]:
    """Return simpler numbers, the simplest first: for an integer those nearer to 0, for a float rounded ones."""
    sign = -1 if value < 0 else 1
    if isinstance(value, int):
        size = abs(value)
        return [sign * one for one in (1, 2, size // 2, size - size // 4, size - 1) if 0 < one < size]
    if not math.isfinite(value) or abs(value) in (0.0, 1.0):
        return []
    rounded = [round(value, digits) for digits in _DIGITS]
    return [float(sign), *rounded[: rounded.index(value) if value in rounded else None]]


def _make_alike(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_full(tensor.shape, tensor.flatten()[0].item())


def _round(tensor: torch.Tensor, digits: int) -> torch.Tensor:
    return tensor.double().round(decimals=digits).to(tensor.dtype)


def _find_nonzero(tensor: torch.Tensor) -> list[int]:
    places: list[int] = (tensor.flatten() != 0).nonzero().flatten().tolist()
    return places


def _clear_places(tensor: torch.Tensor, places: list[int]) -> torch.Tensor:
    mask = torch.ones(tensor.numel(), dtype=torch.bool, device=tensor.device)
    mask[places] = False
    values = view_as_signed(tensor)
    return torch.where(mask.reshape(tensor.shape), values, torch.zeros_like(values)).view(tensor.dtype)


def _set_element(tensor: torch.Tensor, place: int, value: float) -> torch.Tensor:
    flat = tensor.flatten().clone()
    flat[place] = value
    return flat.reshape(tensor.shape)


def _is_equal(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal, where NaN equals NaN."""
    if not tensor.is_floating_point():
        return torch.equal(tensor, other)
    return bool(torch.isclose(tensor, other, rtol=0, atol=0, equal_nan=True).all())
