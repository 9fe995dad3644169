"""Tensor memory: the value number of each tensor of one run, and what was written into its storage since."""

from typing import Any

import torch

from tracehouse.check.prove.symbols import Symbols, is_fake
from tracehouse.check.prove.unprovable import RunStop
from tracehouse.check.prove.value_numbers import ValueNumbers

# Most operands are of these: they are no tensor, and have none in them.
PLAIN_KINDS = frozenset({int, bool, float, str, type(None), torch.SymInt, torch.dtype, torch.device})


class TensorMemory:
    """The tensors that one run has seen.

    A write into a tensor begins a new epoch of its storage: every tensor that shares the storage has another number
    from then on.
    """

    def __init__(self, numbers: ValueNumbers, symbols: Symbols, run_stop: RunStop) -> None:
        self._numbers = numbers
        self._symbols = symbols
        self._run_stop = run_stop
        # By id of a tensor: the number it was made with, and its storage then, which `x.data = y` replaces.
        self._made_with: dict[int, tuple[int, int]] = {}
        self._unknown: set[int] = set()  # by id: tensors that no operator made that was seen
        self._constants: dict[int, torch.Tensor] = {}
        self._epochs: dict[int, int] = {}  # by storage
        self._held: dict[int, torch.Tensor] = {}  # by storage
        # Tensors are looked up by their id, so none of them may be freed while the run lasts.
        self._alive: list[torch.Tensor] = []

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor without values was made by an operator that was seen, or is an input or held."""
        return id(tensor) in self._made_with and id(tensor) not in self._unknown

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's present value."""
        made_with = self.number_before_writes(tensor)
        epoch = self._epochs.get(storage_of(tensor)) if self._epochs and is_fake(tensor) else None
        return made_with if epoch is None else self._numbers.number("written", made_with, epoch)

    def number_before_writes(self, tensor: torch.Tensor) -> int:
        """Return the number that the tensor was made with, whatever was written into it since.

        Raises Unprovable where the tensor's data was replaced.
        """
        if not is_fake(tensor):
            return self._numbers.held_number(tensor)
        made_with = self._made_with.get(id(tensor))
        if made_with is None:
            # No operator that was seen made this tensor, so it equals no other.
            self._unknown.add(id(tensor))
            return self.assign(tensor, self._numbers.number("unknown", id(self), id(tensor)))
        number, storage = made_with
        if storage != storage_of(tensor):
            self._run_stop.stop("the model puts other data into a tensor, by `.data`")
        return number

    def assign(self, tensor: torch.Tensor, number: int, constant: torch.Tensor | None = None) -> int:
        """Give a new tensor its number, and its values where they are known; return the number."""
        self._made_with[id(tensor)] = number, storage_of(tensor)
        self._alive.append(tensor)
        if constant is not None:
            self._constants[id(tensor)] = constant
        return number

    def assign_alias(self, alias: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        """Give `alias` the number of `tensor`, whose storage it shares; return `alias`."""
        self.assign(alias, self.number_before_writes(tensor), self.constant(tensor))
        return alias

    def assign_copy(self, copy: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        """Give `copy`, which has a storage of its own, the number of the present value of `tensor`; return `copy`."""
        self.assign(copy, self.number(tensor), self.constant(tensor))
        return copy

    def write(self, tensor: torch.Tensor, number: int, place: int) -> int:
        """Begin a new epoch of the tensor's storage; return its number.

        `number` is that of the operator that writes, and `place` tells its written operands apart.
        """
        storage = storage_of(tensor)
        self._constants.pop(id(tensor), None)
        self._epochs[storage] = self._numbers.number("write", self._epochs.get(storage), number, place)
        return self._epochs[storage]

    def fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor without values for a held tensor: always the same one, so that a write shows everywhere."""
        if is_fake(tensor):
            return tensor
        fake = self._symbols.fake_of(tensor)
        if id(fake) not in self._made_with:
            self.assign(fake, self._numbers.held_number(tensor), tensor)
            self._held[storage_of(fake)] = tensor
        return fake

    def fakes(self, value: Any) -> Any:
        """Return the operand with `fake` applied to each tensor in it; a tuple becomes a list."""
        if type(value) in PLAIN_KINDS:
            return value
        if isinstance(value, torch.Tensor):
            return self.fake(value)
        if isinstance(value, list | tuple):
            return [self.fakes(item) for item in value]
        return value

    def constant(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return a real tensor with the values of this one; None where they depend on the inputs."""
        if not is_fake(tensor):
            return tensor
        if storage_of(tensor) in self._epochs:
            return None
        self.number_before_writes(tensor)  # this registers the tensor, and stops where its data was replaced
        return self._constants.get(id(tensor))

    def held_addresses(self) -> dict[int, int]:
        """Return the address of the memory of each held tensor, by the storage of the one without values."""
        return {storage: tensor.untyped_storage().data_ptr() for storage, tensor in self._held.items()
                if tensor.layout is torch.strided}  # fmt: skip

    def is_held_tensor_written(self) -> bool:
        """Whether a parameter, a buffer or another tensor that the model holds was written into."""
        return any(storage in self._held for storage in self._epochs)


def storage_of(tensor: torch.Tensor) -> int:
    """Return the address of the tensor's storage, which identifies it while the tensor lives."""
    address: int = tensor.untyped_storage()._cdata
    return address
