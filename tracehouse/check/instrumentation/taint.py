"""Taint: which tensors depend on the values of the inputs or of random draws, and which numbers tensors are compared
with.

This is dynamic taint analysis (Newsome and Song, 2005) on the operators of torch, as a TorchDispatchMode sees them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tracehouse.check.instrumentation.random_operators import draws_random_numbers

# The outputs of these operators depend on the shape of their input alone.
_SHAPE_OPERATORS = frozenset(
    "zeros_like ones_like empty_like full_like rand_like randn_like randint_like "
    "new_empty new_zeros new_ones new_full new_empty_strided".split()
)
_COMPARISONS = frozenset("gt ge lt le eq ne".split())
_NUMBERS_MAX = 64  # more numbers than these are not remembered for one tensor


class Taint:
    """The tainted tensors of one run, told apart by their storage, so that views and writes in place count too.

    Only a weak reference to a storage is kept: its memory is freed, but no other storage gets its address.
    """

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._storages: dict[int, StorageWeakRef] = {}
        self._tainted: set[int] = set()
        self._numbers: dict[int, frozenset[float]] = {}
        self.numbers: set[float] = set()  # that any tensor was compared with, tainted or not
        # The batch sizes of packed sequences: the first of them is the number of rows, whatever the values are.
        self._batch_sizes: set[int] = set()
        self.sizes_depend = False  # whether some operator's output had a size that depends on the values of the inputs
        for tensor in tensors:
            self.mark(tensor)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        key = _identify_storage(tensor)
        if key not in self._tainted:
            return False
        return not (key in self._batch_sizes and tensor.dim() == 0 and tensor.storage_offset() == 0)

    def find_numbers(self, tensor: torch.Tensor) -> frozenset[float]:
        """Return the numbers that the tensor, or a tensor it was computed from, was compared with by an operator."""
        return self._numbers.get(_identify_storage(tensor), frozenset())

    def propagate(self, operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any) -> None:
        """Pass the taint and the numbers of an operator's arguments on to its outputs, and to what it wrote into.

        An output that depends only on the shape of an argument stays untainted. Random numbers are as unknown to a
        trace as the values of the inputs, so they are tainted too.
        """
        name = operator.overloadpacket.__name__
        arguments = [*_find_tensors(args), *_find_tensors(kwargs.values())]
        computed = [*_find_tensors([outputs])]
        self._propagate_numbers(name, args, arguments, computed)
        draws = draws_random_numbers(operator, args, kwargs)
        tainted = [tensor for tensor in arguments if tensor in self]
        if not tainted and not draws:
            return
        if torch.Tag.dynamic_output_shape in operator.tags:
            self.sizes_depend = True
        if draws or name not in _SHAPE_OPERATORS:
            written = [*_find_written(operator, args, kwargs)]
            for tensor in (*computed, *written):
                self.mark(tensor)
            self._batch_sizes.difference_update(map(_identify_storage, written))
        if name == "_pack_padded_sequence":
            self._batch_sizes.add(_identify_storage(computed[1]))

    def _propagate_numbers(
        self, name: str, args: tuple[Any, ...], arguments: list[torch.Tensor], computed: list[torch.Tensor]
    ) -> None:
        known = [self._numbers[key] for tensor in arguments if (key := _identify_storage(tensor)) in self._numbers]
        number = next((arg for arg in args if isinstance(arg, int | float)), None) if name in _COMPARISONS else None
        if number is None and not known:
            return
        numbers = frozenset().union(*known) if number is None else frozenset({float(number)}).union(*known)
        self.numbers |= numbers
        for tensor in computed:
            if len(numbers) <= _NUMBERS_MAX:
                self._numbers[self._remember(tensor)] = numbers

    def mark(self, tensor: torch.Tensor) -> None:
        """Take a tensor for one that depends on the values of the inputs."""
        self._tainted.add(self._remember(tensor))

    def _remember(self, tensor: torch.Tensor) -> int:
        key = _identify_storage(tensor)
        if key and key not in self._storages:
            self._storages[key] = StorageWeakRef(tensor.untyped_storage())
        return key


def _identify_storage(tensor: torch.Tensor) -> int:
    """Return the identity of the tensor's storage; 0 for all tensors without one, such as sparse ones.

    Inside of torch.func, a tensor wraps the one that has the storage.
    """
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


def _find_tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _find_tensors(value)


def _find_written(operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors that the operator writes into."""
    for place, argument in enumerate(operator._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from _find_tensors([args[place] if place < len(args) else kwargs.get(argument.name)])
