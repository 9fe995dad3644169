"""Pickling a live object: classes and functions by the names that they have in the submission, weights left out.

What has no name there, such as a lambda or a class that a function defines, goes by value, as cloudpickle does it. The
pickle is opened in the service's jail and nowhere else.
"""

import io
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol

import cloudpickle
import torch

from tracehouse.client.errors import NotSendable

_LOCKS: dict[type, Callable[[], Any]] = {
    type(threading.Lock()): threading.Lock,
    type(threading.RLock()): threading.RLock,
}
# In a pickle, it stands for code that goes by value, which only the same Python can run.
_BY_VALUE = b"cloudpickle.cloudpickle"


class Names(Protocol):
    """The names that things have in the submission."""

    def reference(self, value: Any) -> tuple[str, str] | None:
        """Return the module and the name of a class or function, or of a module with an empty name; None if it has
        none other than here."""

    def needs(self, module: str) -> None:
        """Note that a module is needed."""


class Placeholder(NamedTuple):
    """Stands for a tensor that goes with the weights. Tensors of one `storage` share their memory there too.

    A pickle may have it several times, and each `number` becomes one tensor.
    """

    number: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    requires_grad: bool
    is_parameter: bool
    attributes: dict[str, Any]
    storage: tuple[int, int, int] | None  # its number, its bytes, and where the tensor begins


@dataclass(frozen=True)
class Pickled:
    """The pickle, and what was replaced in it. `has_code` if only the same Python can open it."""

    data: bytes
    has_code: bool
    by_value: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


def pickle_object(value: Any, names: Names, placeholders: Mapping[int, Placeholder]) -> Pickled:
    """Pickle an object with placeholders for the tensors that have these ids. Raises NotSendable.

    What else pickling may raise depends on the object: it is of any kind.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, names, placeholders)
    pickler.dump(value)
    data = file.getvalue()
    return Pickled(data, _BY_VALUE in data, [*pickler.by_value], [*pickler.replaced])


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it ships without types
    def __init__(self, file: io.BytesIO, names: Names, placeholders: Mapping[int, Placeholder]) -> None:
        super().__init__(file)
        self._names = names
        self._placeholders = placeholders
        self.by_value: dict[str, None] = {}
        self.replaced: dict[str, None] = {}

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and id(value) in self._placeholders:
            return tuple(self._placeholders[id(value)])
        return None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._reduce_tensor(value)
        if isinstance(value, io.TextIOWrapper):
            self.replaced["an open file was replaced by what is in it"] = None
        if isinstance(value, type(os.environ)):
            self.replaced["os.environ stays here: the model meets that of the service"] = None
            return attrgetter("environb" if value is getattr(os, "environb", None) else "environ"), (_Module("os"),)
        if type(value) in _LOCKS:
            self.replaced["a lock was replaced by a new one"] = None
            return _LOCKS[type(value)], ()
        if isinstance(value, type | FunctionType | ModuleType):
            return self._reduce_named(value)
        if isinstance(getattr(value, "__qualname__", None), str):  # it is found by its name, as a cached function is
            return self._reduce_found(value)
        return super().reducer_override(value)

    def _reduce_tensor(self, tensor: torch.Tensor) -> Any:
        if tensor.device.type == "meta":
            raise meta_tensor("a tensor of the model")
        if tensor.device.type != "cpu":
            self.replaced[f"tensors on {tensor.device} go as tensors on the CPU"] = None
            return tensor.cpu().__reduce_ex__(self.proto)
        return NotImplemented

    def _reduce_found(self, value: Any) -> Any:
        reference = self._names.reference(value)
        if reference is not None:
            module, name = reference
            return attrgetter(name), (_Module(module),)
        if isinstance(owner := getattr(value, "__module__", None), str):
            self._names.needs(owner)
        return super().reducer_override(value)

    def _reduce_named(self, value: Any) -> Any:
        reference = self._names.reference(value)
        if reference is not None:
            module, name = reference
            return (attrgetter(name), (_Module(module),)) if name else (import_module, (module,))
        if not isinstance(value, ModuleType) and _is_only_here(value):
            self.by_value[f"{value.__module__}.{value.__qualname__}"] = None
        else:
            self._names.needs(value.__name__ if isinstance(value, ModuleType) else value.__module__)
        return super().reducer_override(value)


class _Module:
    """Becomes the module of this name where the pickle is opened."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> Any:
        return import_module, (self._name,)


def _is_only_here(value: Any) -> bool:
    """Whether nobody else can import a class or function: it is defined in a function, or in what is run."""
    return value.__module__ == "__main__" or "<" in value.__qualname__


def meta_tensor(what: str) -> NotSendable:
    """Return the error for a tensor without values."""
    return NotSendable(
        f"{what} is on the meta device, where tensors have no values. Make the model on the CPU, or give it values: "
        'model.to_empty(device="cpu"), then model.load_state_dict(…)'
    )
