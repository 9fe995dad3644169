"""Taint: which tensors depend on the values of the inputs, and what those are compared with on the way."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

# Of these the outputs depend on the shape of their input alone.
_OF_SHAPES = frozenset(
    "zeros_like ones_like empty_like full_like rand_like randn_like randint_like "
    "new_empty new_zeros new_ones new_full new_empty_strided".split()
)
_COMPARISONS = frozenset("gt ge lt le eq ne".split())
_NUMBERS_MAX = 64  # that one tensor is known to have been compared with


class Taint:
    """By storage, so that views and what is written in place are told as well.

    A storage is held weakly: its memory goes, its address is not taken by another.
    """

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._held: dict[int, StorageWeakRef] = {}
        self._tainted: set[int] = set()
        self._numbers: dict[int, frozenset[float]] = {}
        self.numbers: set[float] = set()  # that tensors were compared with, whatever those depend on
        self.sizes_depend = False  # an output's size was seen to depend on the values of the inputs
        for tensor in tensors:
            self._mark(tensor)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return _key(tensor) in self._tainted

    def numbers_behind(self, tensor: torch.Tensor) -> frozenset[float]:
        """That the tensor, or what it was made of, was compared with."""
        return self._numbers.get(_key(tensor), frozenset())

    def follow(self, operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], given: Any) -> None:
        """What an operator made of its arguments."""
        name = operator.overloadpacket.__name__
        taken = [*_tensors(args), *_tensors(kwargs.values())]
        made = [*_tensors([given])]
        self._follow_numbers(name, args, taken, made)
        tainted = [tensor for tensor in taken if tensor in self]
        if not tainted:
            return
        if torch.Tag.dynamic_output_shape in operator.tags:
            self.sizes_depend = True
        if name not in _OF_SHAPES:
            for tensor in (*made, *_written(operator, args, kwargs)):
                self._mark(tensor)

    def _follow_numbers(
        self, name: str, args: tuple[Any, ...], taken: list[torch.Tensor], made: list[torch.Tensor]
    ) -> None:
        known = [self._numbers[key] for tensor in taken if (key := _key(tensor)) in self._numbers]
        number = next((arg for arg in args if isinstance(arg, int | float)), None) if name in _COMPARISONS else None
        if number is None and not known:
            return
        numbers = frozenset().union(*known) if number is None else frozenset({float(number)}).union(*known)
        self.numbers |= numbers
        for tensor in made:
            if len(numbers) <= _NUMBERS_MAX:
                self._numbers[self._hold(tensor)] = numbers

    def _mark(self, tensor: torch.Tensor) -> None:
        self._tainted.add(self._hold(tensor))

    def _hold(self, tensor: torch.Tensor) -> int:
        key = _key(tensor)
        if key and key not in self._held:
            self._held[key] = StorageWeakRef(tensor.untyped_storage())
        return key


def _key(tensor: torch.Tensor) -> int:
    """0 for all that have no storage of their own, as sparse ones: they are taken together."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _written(operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """The arguments that the operator writes into."""
    for place, argument in enumerate(operator._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from _tensors([args[place] if place < len(args) else kwargs.get(argument.name)])
