"""Example inputs as a trace request has them: nested values, whose tensors go in a file of safetensors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracehouse.client.arguments import bounded_depth, check_finite
from tracehouse.client.errors import NotSendable
from tracehouse.client.values import is_tensor, to_tensor
from tracehouse.tensors.tensor import Tensor
from tracehouse.tensors.tensor_file import iter_file_bytes

_FILE = "inputs.safetensors"
_FINITE = "JSON has no such number: give it in a tensor, as torch.tensor(float('nan'))"
# The names of members that say what an object of a trace request is.
_MEANINGFUL = {"datatype", "file", "tuple"}


class ExampleInputs:
    """The inputs of all calls of one trace request."""

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}

    def call(self, path: str, args: Any, kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the members of a call. `args` is a tuple or a list of arguments, or one argument. Raises NotSendable.

        `path` is how the inputs are called in errors.
        """
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise NotSendable(f"the keyword inputs of {path} are a {type(kwargs).__name__}: give a dict by names")
        positional = args if isinstance(args, tuple | list) else (args,)
        with bounded_depth(path):
            return {
                "example_inputs": [self._tree(f"{path}[{place}]", value) for place, value in enumerate(positional)],
                "example_kwarg_inputs": {
                    name: self._tree(f"{path}[{name!r}]", each) for name, each in (kwargs or {}).items()
                },
            }

    def further_call(self, path: str, given: Any) -> dict[str, Any]:
        """Return the members of a further call: a tuple of positional, or a dict of keyword arguments."""
        return self.call(path, (), given) if isinstance(given, Mapping) else self.call(path, given)

    def uploads(self) -> dict[str, bytes]:
        """Return the file with all tensors, if there are any."""
        return {_FILE: b"".join(iter_file_bytes([*self._tensors.items()]))} if self._tensors else {}

    def _tree(self, path: str, value: Any) -> Any:
        if is_tensor(value):
            self._tensors[path] = to_tensor(path, value)
            return {"file": _FILE, "key": path}
        match value:
            case np.generic() if not isinstance(item := value.item(), np.generic):
                return self._tree(path, item)
            case None | bool() | int() | float() | str():
                check_finite(path, value, _FINITE)
                return value
            case list():
                return self._items(path, value)
            case tuple() if not hasattr(value, "_fields"):
                return {"tuple": self._items(path, value)}
            case dict() if all(isinstance(name, str) for name in value) and not _MEANINGFUL.intersection(value):
                return {name: self._tree(f"{path}[{name!r}]", item) for name, item in value.items()}
        raise NotSendable(f"{path} is {_describe(value)}")

    def _items(self, path: str, values: Sequence[Any]) -> list[Any]:
        return [self._tree(f"{path}[{place}]", item) for place, item in enumerate(values)]


def _describe(value: Any) -> str:
    match value:
        case dict() if not all(isinstance(name, str) for name in value):
            return "a dict with keys that are no texts: give the keys names"
        case dict():
            return (
                f"a dict with a key among {sorted(_MEANINGFUL)}, which mean something else in a request: rename the key"
            )
        case tuple():
            return f"a named tuple, {type(value).__name__}: give a plain tuple, and name the items inside of forward"
    return (
        f"a {type(value).__name__}: an input is a tensor, an array, a number, a text, None, or a list, tuple or dict "
        "of these"
    )
