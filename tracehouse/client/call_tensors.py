"""The arguments of a call as named tensors, and the tensors of an answer as what the model returns.

The contract says how both nest. An answer must never be one to other arguments, so what the trace has baked in is
compared here, and so is the order of keys where the model reads it: the service sees only tensors.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tracehouse.client.values import is_tensor, to_tensor
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.key_orders import KEYWORDS, check_key_order, check_key_orders_within
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
    means_same_value,
    tensors_of,
)
from tracehouse.errors import BakedArgument, MissingInput, StructureMismatch, UnexpectedInput
from tracehouse.tensors.tensor import Datatype, Tensor, infer_shape, pack


def flatten_call(method: MethodContract, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors of a call by their names in the contract. Raises a ContractViolation or NotSendable."""
    names = [argument.name for argument in method.arguments]
    given = _by_name(names, args, kwargs)
    reading = _Reading(method)
    check_key_order(method.key_orders, kwargs, KEYWORDS)
    return [
        tensor
        for argument in method.arguments
        if argument.name in given
        for tensor in reading.tensors_in(given[argument.name], argument.structure, argument.name)
    ]


def _by_name(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    if len(args) > len(names):
        raise UnexpectedInput(
            f"there are {len(names)} arguments, not {len(args)}", expected=len(names), actual=len(args), inputs=[*names]
        )
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise UnexpectedInput(f"there is no input {name!r}", input=name, inputs=[*names])
        if name in given:
            raise UnexpectedInput(f"argument {name!r} was given twice", input=name, inputs=[*names])
        given[name] = value
    return given


class _Reading:
    """Reads the arguments of one call by the contract's structure."""

    def __init__(self, method: MethodContract) -> None:
        self._datatypes = {spec.name: spec.datatype for spec in method.inputs}
        self._orders = method.key_orders

    def tensors_in(self, value: Any, structure: Structure, path: str) -> Iterator[Tensor]:
        match structure:
            case TensorLeaf():
                yield _read_tensor(value, structure.tensor, self._datatypes[structure.tensor])
            case BakedLeaf():
                self._check_value(value, structure.baked, path, "was traced, and that is baked in")
            case FixedLeaf():
                self._check_value(value, structure.fixed, path, "was checked, and nothing else was tried")
            case ListNode():
                yield from self._items(value, structure.list, path)
            case TupleNode():
                yield from self._items(value, structure.tuple, path)
            case DictNode():
                yield from self._entries(value, structure.mapping, path)

    def _check_value(self, value: Any, known: Any, path: str, when: str) -> None:
        plain = _as_json(value)
        if not means_same_value(plain, known):
            raise BakedArgument(
                f"{path!r} was {known!r} when the model {when}", input=path, expected=known, actual=_describe(value)
            )
        check_key_orders_within(self._orders, plain, path)

    def _items(self, value: Any, inner: Sequence[Structure], path: str) -> Iterator[Tensor]:
        if not isinstance(value, list | tuple) or len(value) != len(inner):
            raise _mismatch(path, f"a list or tuple of {len(inner)}", value)
        for place, (item, structure) in enumerate(zip(value, inner, strict=True)):
            yield from self.tensors_in(item, structure, f"{path}.{place}")

    def _entries(self, value: Any, inner: Mapping[str, Structure], path: str) -> Iterator[Tensor]:
        if not isinstance(value, Mapping) or not value.keys() <= inner.keys():
            raise _mismatch(path, f"a dict of {sorted(inner)}", value)
        check_key_order(self._orders, value, path)
        for key, structure in inner.items():
            if key in value:
                yield from self.tensors_in(value[key], structure, f"{path}.{key}")
            elif any(tensors_of(structure)):
                raise MissingInput(f"input {f'{path}.{key}'!r} is missing", input=f"{path}.{key}")


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


def _mismatch(path: str, expected: str, value: Any) -> StructureMismatch:
    actual = _describe(value)
    return StructureMismatch(f"{path!r} is {expected}, not {actual}", input=path, expected=expected, actual=actual)


def _describe(value: Any) -> str:
    if isinstance(value, bool | int | float | str) or value is None:
        return repr(value)[:80]
    return f"a {type(value).__name__}"
