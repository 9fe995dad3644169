"""Operator stream: the operators of torch that one call of an artifact ran, with the shapes that they took and gave."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from tracehouse.torch_values.tensors import to_bytes

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor as an operator took or gave it. `number` tells the tensors of one call apart."""

    number: int
    shape: Shape
    strides: Shape
    memory: int  # the address of its storage: views of one another have the same
    is_boolean: bool


@dataclass(frozen=True)
class Operation:
    """One operator, its arguments by name, and the tensors that it returned. Nested tensors are `Tensor`s too."""

    operator: torch._ops.OpOverload
    arguments: Mapping[str, Any]
    outputs: list[Tensor]
    scalar: Any = None  # the number that the operator read out of a tensor

    @property
    def name(self) -> str:
        """Return the operator's name without namespace, overload and the underscore of in-place operators."""
        name = self.operator._schema.name.split("::")[1]
        return name[:-1] if self.writes and name.endswith("_") else name

    @property
    def writes(self) -> list[str]:
        """Return the names of the arguments that the operator writes to."""
        return [one.name for one in self.operator._schema.arguments if one.alias_info and one.alias_info.is_write]

    @property
    def tensors(self) -> list[Tensor]:
        return [*find_tensors(self.arguments)]


@dataclass
class Stream:
    """The operators of one call in order, and what its tensors are that no operator gave.

    `given` has the call's inputs by path, `outputs` its outputs by path. `found` has a digest of each other tensor by
    number: parameters, constants and numbers.
    """

    given: dict[str, Tensor] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    found: dict[int, str] = field(default_factory=dict)


class StreamRecorder(TorchDispatchMode):
    """Records the stream of the call that is made inside of it.

    `given` are the inputs of the call by path, and `kept` the parameters and buffers of what is called.
    """

    def __init__(self, given: Mapping[str, torch.Tensor], kept: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stream = Stream()
        self._numbers = WeakTensorKeyDictionary()
        self._count = itertools.count()
        self.stream.given = {path: self._describe_given(tensor) for path, tensor in given.items()}
        for place, tensor in enumerate(kept):
            self.stream.found[self._describe_given(tensor).number] = f"kept {place}"

    def __torch_dispatch__(
        self, func: torch._ops.OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        names = [one.name for one in func._schema.arguments]
        arguments = _replace_tensors(dict(zip(names, args, strict=False)) | kwargs, self._describe)
        returned = func(*args, **kwargs)
        outputs = [self._describe_given(one) for one in _list_tensors(returned)]
        scalar = returned if isinstance(returned, bool | int | float | complex) else None
        self.stream.operations.append(Operation(func, arguments, outputs, scalar))
        return returned

    def name_outputs(self, outputs: Mapping[str, torch.Tensor]) -> None:
        """Set the outputs of the stream."""
        self.stream.outputs = {path: self._describe(tensor) for path, tensor in outputs.items()}

    def _describe(self, tensor: torch.Tensor) -> Tensor:
        """Describe a tensor that an operator takes. If no operator gave it, the stream says what it holds."""
        if tensor not in self._numbers:
            self.stream.found[self._describe_given(tensor).number] = _digest(tensor)
        return self._describe_given(tensor)

    def _describe_given(self, tensor: torch.Tensor) -> Tensor:
        if tensor not in self._numbers:
            self._numbers[tensor] = next(self._count)
        number = self._numbers[tensor]
        is_strided = tensor.layout is torch.strided
        return Tensor(
            number,
            tuple(tensor.shape),
            tuple(tensor.stride()) if is_strided else (),
            tensor.untyped_storage().data_ptr() if is_strided else 0,
            tensor.dtype in (torch.bool, torch.uint8),
        )


def find_tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested arguments."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from find_tensors(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from find_tensors(one)


def _replace_tensors(value: Any, describe: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return describe(value)
    if isinstance(value, dict):
        return {name: _replace_tensors(one, describe) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_tensors(one, describe) for one in value]
    return value


def _list_tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for one in value for tensor in _list_tensors(one)] if isinstance(value, list | tuple) else []


def _digest(tensor: torch.Tensor) -> str:
    """Return what two tensors have in common if they have the same values."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return f"{tensor.layout} {tensor.shape}"
    return f"{tensor.dtype} {tuple(tensor.shape)} {hashlib.sha256(to_bytes(tensor)).hexdigest()}"
