"""Node functions: what computes the outputs of a graph's node, by the node's kind.

Sizes stay symbolic numbers, and scalar tensors stand for tensors without dims that are computed from sizes.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from tracehouse.check.prove import scalar_tensors
from tracehouse.check.prove.operand_keys import WITH_NUMBER_SECOND
from tracehouse.check.prove.scalar_tensors import ScalarTensor, Unsupported, as_tensor
from tracehouse.check.prove.size_arithmetic import SCRIPT_FLOOR_DIVISION
from tracehouse.check.prove.size_operators import DTYPES, is_unread_integer
from tracehouse.check.prove.symbols import compute, is_fake
from tracehouse.introspection import script_graphs


class GraphError(Exception):
    """A node refuses these sizes: the artifact raises an error there."""


def node_function(kind: str, node: script_graphs.Node) -> Callable[..., Any]:
    """Return the function from a node's inputs to its outputs.

    The function may raise Unsupported, if the node is not run here, and GraphError, if it refuses its inputs. prim::If
    and prim::Loop have none, because they run blocks.
    """
    if kind in ("prim::If", "prim::Loop"):
        return _must_not_run
    if kind == "prim::GetAttr":
        name = node.s("name")
        return lambda owner: _attribute(owner, name)
    if kind == "aten::ScalarImplicit" and _ends_ranges(node):
        return _keep_unread
    if kind in _OWN_FUNCTIONS:
        return _OWN_FUNCTIONS[kind]
    if kind in _LIST_FUNCTIONS and _takes_list(node):
        return _LIST_FUNCTIONS[kind]
    namespace, _, name = kind.partition("::")
    if name in _NUMBER_FUNCTIONS and namespace == "aten":
        return _number_function(name, _overload(node))
    if namespace == "prim":
        return partial(_unsupported, kind)
    return _operator_function(kind, _overload(node))


def to_bool(value: Any) -> bool:
    """Return the truth of a number, a symbolic number or a scalar tensor."""
    if isinstance(value, ScalarTensor):
        value = value.value
    return bool(value)


def to_plain_values(value: Any) -> Any:
    """Return the value with a real tensor in place of each scalar tensor, also inside lists, tuples and dicts."""
    match value:
        case ScalarTensor():
            return as_tensor(value)
        case list():
            return [to_plain_values(item) for item in value]
        case tuple():
            return tuple(to_plain_values(item) for item in value)
        case dict():
            return {key: to_plain_values(item) for key, item in value.items()}
    return value


def _must_not_run(*_: Any) -> Any:
    raise AssertionError


def _unsupported(kind: str, *_: Any) -> Any:
    raise Unsupported(kind)


def _attribute(owner: Any, name: str) -> Any:
    if isinstance(owner, torch.ScriptObject) and not hasattr(owner, name):
        raise Unsupported(f"the attribute {name!r} of an object")
    value = getattr(owner, name)
    # A call that wrote into the list or dict would change it for the next call.
    match value:
        case list():
            return tuple(value)
        case dict():
            return MappingProxyType(value)
    return value


def _overload(node: script_graphs.Node) -> Any:
    """Return the operator of the node's schema; None where torch.ops has no such operator."""
    schema = node.schema()
    if schema == "(no schema)":
        return None
    qualified = schema.partition("(")[0]
    namespace, _, rest = qualified.partition("::")
    name, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError):
        return None


def _operator_function(kind: str, overload: Any) -> Callable[..., Any]:
    if overload is None:
        return partial(_unsupported, kind)
    promotes = kind in _PROMOTING

    def run(*inputs: Any) -> Any:
        values: Sequence[Any] = inputs
        if any(isinstance(value, ScalarTensor) for value in values) and not any(map(_has_tensor, values)):
            if kind not in _RESHAPING:
                return scalar_tensors.compute(kind, values)
            return _call(overload, [to_plain_values(value) for value in values], kind)
        if any(isinstance(value, ScalarTensor) for value in _written(overload, values)):
            raise Unsupported(f"{kind} of a size")
        if _is_number_first(kind, values):
            first, second, *others = values
            name = WITH_NUMBER_SECOND[kind.removeprefix("aten::")]
            return getattr(torch.ops.aten, name)(second, _number_beside(first, second), *others)
        if promotes:
            values = _prepare_promotion(values)
        if kind == "aten::pow":  # torch raises to the power of a number in another way, as eager does
            values = [as_tensor(value) if isinstance(value, ScalarTensor) else value for value in values]
        return _call(overload, [to_plain_values(value) for value in values], kind)

    return run


def _written(overload: Any, values: Sequence[Any]) -> list[Any]:
    """Return the inputs that the operator writes into."""
    arguments = zip(overload._schema.arguments, values, strict=False)
    return [value for argument, value in arguments if argument.alias_info is not None and argument.alias_info.is_write]


def _number_function(name: str, overload: Any) -> Callable[..., Any]:
    """Return a function that computes with numbers; with a tensor among its inputs, it runs torch's operator."""
    calculate = _NUMBER_FUNCTIONS[name]
    gives_float = overload is not None and [str(one.type) for one in overload._schema.returns] == ["float"]

    def run(*values: Any) -> Any:
        if not any(map(_has_tensor, values)) and not any(isinstance(value, ScalarTensor) for value in values):
            try:
                result = calculate(*values)
            except (TypeError, AttributeError) as error:
                raise Unsupported(f"aten::{name}: {error}") from error
            if gives_float:
                return torch.sym_float(result)
            return scalar_tensors.keep_bounds(result) if name in _GROWING and _is_integer(result) else result
        return _operator_function(f"aten::{name}", overload)(*values)

    return run


def _is_integer(value: Any) -> bool:
    return isinstance(value, torch.SymInt) or type(value) is int


def _divide_and_floor(value: Any, by: Any) -> Any:
    """Divide as TorchScript does, which takes the floor of a quotient of floats."""
    if any(isinstance(one, float | torch.SymFloat) for one in (value, by)):
        return compute(SCRIPT_FLOOR_DIVISION, [torch.sym_float(value), torch.sym_float(by)])
    return value // by


def _takes_list(node: script_graphs.Node) -> bool:
    return any(isinstance(value.type(), torch.ListType) for value in node.inputs())


def _both(first: Any, second: Any) -> Any:
    return first & second if _is_integer(first) else first and second


def _either(first: Any, second: Any) -> Any:
    return first | second if _is_integer(first) else first or second


def _call(overload: Any, values: Sequence[Any], kind: str) -> Any:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument, value in zip(overload._schema.arguments, values, strict=False):
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    # The schema has a tensor where a trace gives a number: a size beside tensors. Python finds the right overload.
    if kind in _PROMOTING and not all(isinstance(value, torch.Tensor) for value in args[:2]):
        return getattr(torch.ops.aten, kind.removeprefix("aten::"))(*args, **kwargs)
    return overload(*args, **kwargs)


def _is_number_first(kind: str, values: Sequence[Any]) -> bool:
    """Whether eager runs the operator with its operands the other way round: Python puts a tensor before a number."""
    if kind.removeprefix("aten::") not in WITH_NUMBER_SECOND:
        return False
    first, second, *others = values
    return isinstance(first, ScalarTensor) and isinstance(second, torch.Tensor) and others in ([], [1])


def _prepare_promotion(values: Sequence[Any]) -> list[Any]:
    """Replace a scalar tensor beside a tensor by its number, if both lead to the same result datatype."""
    first, second, *others = values
    if isinstance(second, ScalarTensor) and isinstance(first, torch.Tensor):
        second = _number_beside(second, first)
    elif isinstance(first, ScalarTensor) and isinstance(second, torch.Tensor):
        first = as_tensor(first)
    return [first, second, *others]


def _number_beside(number: ScalarTensor, tensor: torch.Tensor) -> Any:
    kind = 1.0 if number.dtype.is_floating_point else True if number.dtype is torch.bool else 1
    with torch._C._DisableTorchDispatch():
        as_number = torch.result_type(torch.empty((1,) * min(tensor.dim(), 1), dtype=tensor.dtype), kind)
        as_other = torch.result_type(
            torch.empty((1,) * min(tensor.dim(), 1), dtype=tensor.dtype), torch.empty((), dtype=number.dtype)
        )
    return number.value if as_number == as_other else as_tensor(number)


def _has_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dim() > 0 or is_fake(value)
    return isinstance(value, list | tuple) and any(map(_has_tensor, value))


def _to_integer(value: Any) -> Any:
    """Return the value as an integer, as aten::Int and aten::IntImplicit do."""
    if isinstance(value, ScalarTensor):
        return scalar_tensors.to_integer(value)
    if isinstance(value, torch.Tensor):
        value = value.item()
    return value if isinstance(value, torch.SymInt) else torch.sym_int(value)


def _to_number(value: Any) -> Any:
    if isinstance(value, ScalarTensor):
        return value.value
    return value.item() if isinstance(value, torch.Tensor) else value


def _ends_ranges(node: script_graphs.Node) -> bool:
    """Whether the number that the node takes out of a tensor is used for nothing but bounds of ranges."""
    return all(use.user.kind() == "aten::arange" for use in node.output().uses())


def _keep_unread(value: Any) -> Any:
    """Return an integer that is not known as the tensor that it is in: the range follows from its value."""
    return value if is_unread_integer(value) else _to_number(value)


def _to_float(value: Any) -> Any:
    value = _to_number(value)
    return torch.sym_float(value) if not isinstance(value, float | torch.SymFloat) else value


def _size(tensor: Any, dim: Any = None) -> Any:
    if isinstance(tensor, ScalarTensor):
        return []
    return list(tensor.shape) if dim is None else tensor.shape[dim]


def _item(values: Any, place: Any) -> Any:
    try:
        return values[place]
    except (IndexError, KeyError) as error:
        raise GraphError(f"it has no item {place}") from error


def _slice(values: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return values[start:end:step]


def _len(value: Any) -> Any:
    return _size(value, 0) if isinstance(value, torch.Tensor) else len(value)


def _pop(values: list[Any], place: int = -1) -> Any:
    try:
        return values.pop(place)
    except (IndexError, KeyError) as error:
        raise GraphError(f"it has no item {place}") from error


def _make_dict(*values: Any) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


def _append(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


def _extend(values: list[Any], others: list[Any]) -> None:
    values.extend(others)


def _set_item(values: Any, place: Any, value: Any) -> Any:
    values[place] = value
    return values


def _raise(*values: Any) -> Any:
    raise GraphError(str(next((value for value in values if isinstance(value, str)), "prim::RaiseException")))


_RESHAPING = {"aten::expand", "aten::unsqueeze", "aten::reshape", "aten::view", "aten::repeat"}
_NUMBERS_OF_DTYPES = {dtype: number for number, dtype in DTYPES.items()}

_PROMOTING = {
    f"aten::{name}" for name in "add sub rsub mul div true_divide floor_divide remainder eq ne lt le gt ge".split()
}
# These need no operator of torch.
_OWN_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "prim::ListConstruct": lambda *values: list(values),
    "prim::TupleConstruct": lambda *values: values,
    "prim::DictConstruct": _make_dict,
    "prim::ListUnpack": lambda values: values[0] if len(values) == 1 else values,
    "prim::TupleUnpack": lambda values: values[0] if len(values) == 1 else values,
    "prim::TupleIndex": _item,
    "prim::TupleSlice": _slice,
    "prim::NumToTensor": scalar_tensors.from_number,
    "prim::unchecked_cast": lambda value: value,
    "prim::unchecked_unwrap_optional": lambda value: value,
    "prim::Uninitialized": lambda *_: None,
    "prim::RaiseException": _raise,
    "prim::device": lambda tensor: tensor.device,
    "prim::dtype": lambda tensor: _NUMBERS_OF_DTYPES[tensor.dtype],
    "prim::layout": lambda _: 0,
    "prim::min": lambda *values: torch.sym_min(*values) if len(values) > 1 else min(values[0]),
    "prim::max": lambda *values: torch.sym_max(*values) if len(values) > 1 else max(values[0]),
    "prim::is_cuda": lambda tensor: tensor.is_cuda,
    "prim::type": lambda device: device.type,
    "prim::Print": lambda *_: None,
    "prim::annotate": lambda value: value,
    "aten::size": _size,
    "aten::sym_size": _size,
    "aten::numel": lambda tensor: 1 if isinstance(tensor, ScalarTensor) else tensor.numel(),
    "aten::dim": lambda tensor: 0 if isinstance(tensor, ScalarTensor) else tensor.dim(),
    "aten::Int": _to_integer,
    "aten::IntImplicit": _to_integer,
    "aten::ScalarImplicit": _to_number,
    "aten::Float": _to_float,
    "aten::FloatImplicit": _to_float,
    "aten::Bool": to_bool,
    "aten::item": _to_number,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__not__": operator.not_,
    "aten::__getitem__": _item,
    "aten::_set_item": _set_item,
    "aten::append": _append,
    "aten::extend": _extend,
    "aten::insert": lambda values, place, value: values.insert(place, value),
    "aten::pop": _pop,
    "aten::reverse": lambda values: values.reverse(),
    "aten::copy": lambda values: dict(values) if isinstance(values, Mapping) else list(values),
    "aten::clear": lambda values: values.clear(),
    "aten::len": _len,
    "aten::list": list,
    "aten::keys": lambda values: [*values.keys()],
    "aten::values": lambda values: [*values.values()],
    "aten::items": lambda values: [*values.items()],
    "aten::dict": dict,
    "aten::__contains__": lambda values, value: value in values,
    "aten::warn": lambda *_: None,
    "aten::format": lambda text, *values: text.format(*values),
    "aten::is_floating_point": lambda tensor: tensor.dtype.is_floating_point,
}
# These take a list, whatever is in it, and give a list.
_LIST_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten::slice": _slice,
    "aten::add": lambda first, second: [*first, *second],
    "aten::mul": lambda first, second: first * second,
}
_GROWING = {"add", "sub", "mul", "pow", "neg", "abs", "floordiv"}  # their result may be too large for 64 bits
_AS_ON_TENSORS = "add sub mul div floor_divide remainder neg pow eq ne lt le gt ge"
# These compute with numbers, if no tensor is among the inputs.
_NUMBER_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: scalar_tensors.ARITHMETIC[name] for name in _AS_ON_TENSORS.split()},
    "floordiv": _divide_and_floor,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "abs": abs,
    "__and__": _both,
    "__or__": _either,
    "__range_length": lambda low, high, step: len(range(low, high, step)),
    "__derive_index": lambda turn, start, step: start + turn * step,
}
