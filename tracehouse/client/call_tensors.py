"""The arguments of a call as named tensors, and the tensors of an answer as what the model returns.

The contract says how both nest. An answer must never be one to other arguments, so what the trace has baked in is
compared before anything is sent, and so is the order of keys where the model reads it: the service sees only tensors.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tracehouse.client.values import is_tensor, to_tensor
from tracehouse.contract.call_walk import CallWalk
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.structure import (
    BakedLeaf,
    ComplexLeaf,
    DataclassNode,
    DictNode,
    FixedLeaf,
    ListNode,
    NamedTupleNode,
    Structure,
    TensorLeaf,
    TupleNode,
)
from tracehouse.tensors.tensor import Datatype, Tensor, infer_shape, pack


def flatten_call(method: MethodContract, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors of a call by their names in the contract. Raises a ContractViolation or NotSendable."""
    datatypes = {spec.name: spec.datatype for spec in method.inputs}

    def read(value: Any, name: str) -> Tensor:
        return _read_tensor(value, name, datatypes[name])

    return [*CallWalk(method, method.key_orders, _PythonValues(), read).call(args, kwargs)]


class _PythonValues:
    """How Python's values show what they are."""

    a_list = "a list or tuple"
    a_dict = "a dict"

    def items_of(self, value: Any, *, is_tuple: bool) -> Sequence[Any] | None:  # noqa: ARG002
        return value if isinstance(value, list | tuple) else None

    def entries_of(self, value: Any) -> Mapping[str, Any] | None:
        return value if isinstance(value, Mapping) else None

    def as_json(self, value: Any) -> Any:
        return _as_json(value)

    def describe(self, value: Any) -> str:
        return _describe(value)


def build_answer(returns: Structure, outputs: Mapping[str, Tensor], make: Callable[..., Any]) -> Any:
    """Return what the model returns, with its tensors made by `make`. A dataclass becomes an object with its fields."""
    match returns:
        case TensorLeaf():
            return make(outputs[returns.tensor])
        case ComplexLeaf():
            return make(outputs[returns.complex], is_complex=True)
        case BakedLeaf():
            return returns.baked
        case FixedLeaf():
            return returns.fixed
        case ListNode():
            return [build_answer(item, outputs, make) for item in returns.list]
        case TupleNode():
            return tuple(build_answer(item, outputs, make) for item in returns.tuple)
        case DictNode():
            return {key: build_answer(item, outputs, make) for key, item in returns.mapping.items()}
        case DataclassNode():
            return SimpleNamespace(**{k: build_answer(item, outputs, make) for k, item in returns.dataclass.items()})
        case NamedTupleNode():
            fields = {key: build_answer(item, outputs, make) for key, item in returns.namedtuple.items()}
            return namedtuple("Answer", fields, rename=True)(*fields.values())


def holds_torch(values: Any) -> bool:
    """Whether a tensor of torch is among nested values."""
    if isinstance(values, Mapping):
        return any(map(holds_torch, values.values()))
    if isinstance(values, list | tuple):
        return any(map(holds_torch, values))
    return is_tensor(values) and not isinstance(values, np.ndarray)


def _read_tensor(value: Any, name: str, datatype: Datatype) -> Tensor:
    """Return a tensor or an array as it is, and numbers with the contract's datatype. Raises InvalidTensor."""
    if is_tensor(value):
        return to_tensor(name, value)
    plain = _as_json(value)
    shape = infer_shape(plain)
    return Tensor(name, datatype, shape, pack(datatype, shape, plain))


def _as_json(value: Any) -> Any:
    match value:
        case np.generic():
            return value.item()
        case list() | tuple():
            return [_as_json(item) for item in value]
        case dict():
            return {key: _as_json(item) for key, item in value.items()}
    return value


def _describe(value: Any) -> str:
    if isinstance(value, bool | int | float | str) or value is None:
        return repr(value)[:80]
    return f"a {type(value).__name__}"
