"""The artifact's graph, run node by node: on tensors without values, a symbol where a size is asked for."""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from tracehouse.check.prove import scalar_tensors, size_operators
from tracehouse.check.prove.recorder import Recorder
from tracehouse.check.prove.scalar_tensors import NumberTensor, Unsupported, as_tensor
from tracehouse.check.prove.size_operators import DTYPES
from tracehouse.check.prove.symbols import is_fake
from tracehouse.introspection import script_graphs, user_lines

_LOOPS_MAX = 100_000


class Raised(Exception):
    """A node does not take these sizes: the artifact raises there."""


@dataclass(frozen=True)
class _Step:
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    node: script_graphs.Node
    run: Callable[..., Any]
    blocks: tuple["_Block", ...] = ()


@dataclass(frozen=True)
class _Block:
    parameters: tuple[int, ...]
    steps: tuple[_Step, ...]
    results: tuple[int, ...]


class Program:
    """A method of an artifact, read once."""

    def __init__(self, artifact: torch.jit.ScriptModule, method: str) -> None:
        """Raises Unsupported."""
        self._artifact = artifact
        compiled = script_graphs.methods(artifact)[method]
        self.schema = compiled.schema
        self._graph = compiled.inlined_graph  # what nodes are read from must live
        torch._C._jit_pass_inline(self._graph)
        torch._C._jit_pass_dce(self._graph)
        self._places: dict[str, int] = {}
        self._constants: dict[int, Any] = {}
        self._main = self._block(self._graph, self._graph.inputs(), self._graph.return_node())

    def run(self, arguments: Mapping[str, Any], recorder: Recorder) -> Any:
        """Raises Unsupported and Raised, and what the recorder raises."""
        values = dict(self._constants)
        given = [self._artifact, *self._bound(arguments)]
        if len(given) != len(self._main.parameters):
            raise Unsupported("it takes other arguments than it was given")
        values.update(zip(self._main.parameters, given, strict=True))
        results = self._run(self._main, values, recorder)
        return plain(results[0] if len(results) == 1 else tuple(results))

    def _bound(self, arguments: Mapping[str, Any]) -> list[Any]:
        """In the order of the schema; a trace names its parameters as it likes."""
        parameters = self.schema.arguments[1:]
        if len(parameters) == len(arguments) and not all(argument.name in arguments for argument in parameters):
            return [*arguments.values()]
        bound = []
        for parameter in parameters:
            if parameter.name in arguments:
                bound.append(arguments[parameter.name])
            elif parameter.has_default_value():
                bound.append(parameter.default_value)
            else:
                raise Unsupported(f"its parameter {parameter.name!r} is given by position")
        return bound

    def _run(self, block: _Block, values: dict[int, Any], recorder: Recorder) -> list[Any]:
        for step in block.steps:
            recorder.at = step.node
            taken = [values[place] for place in step.inputs]
            made = self._made(step, taken, values, recorder)
            if len(step.outputs) == 1:
                values[step.outputs[0]] = made
            elif step.outputs:
                if len(made) != len(step.outputs):
                    raise Raised(f"{step.kind} of {len(step.outputs)} values has {len(made)}")
                values.update(zip(step.outputs, made, strict=True))
        return [values[place] for place in block.results]

    def _made(self, step: _Step, taken: list[Any], values: dict[int, Any], recorder: Recorder) -> Any:
        match step.kind:
            case "prim::If":
                made = self._run(step.blocks[0 if _truth(taken[0]) else 1], values, recorder)
                return made[0] if len(step.outputs) == 1 else made
            case "prim::Loop":
                made = self._looped(step.blocks[0], taken, values, recorder)
                return made[0] if len(step.outputs) == 1 else made
        found = size_operators.of_node(step.kind, taken)
        return step.run(*taken) if found is None else recorder.sized(found)

    def _looped(self, body: _Block, taken: list[Any], values: dict[int, Any], recorder: Recorder) -> list[Any]:
        most, goes_on, *carried = taken
        turn = 0
        while turn < most and _truth(goes_on):
            if turn > _LOOPS_MAX:
                raise Unsupported("prim::Loop")
            values.update(zip(body.parameters, [turn, *carried], strict=True))
            goes_on, *carried = self._run(body, values, recorder)
            turn += 1
        return carried

    # Reading the graph.

    def _block(self, block: Any, parameters: Any, returned: Any) -> _Block:
        taken = tuple(self._place(value) for value in parameters)
        steps = tuple(self._steps(block))
        return _Block(taken, steps, tuple(self._place(value) for value in returned.inputs()))

    def _steps(self, block: Any) -> Iterator[_Step]:
        for node in block.nodes():
            kind = node.kind()
            outputs = tuple(self._place(value) for value in node.outputs())
            if kind == "prim::Constant":
                self._constants[outputs[0]] = _constant(node)
                continue
            inputs = tuple(self._place(value) for value in node.inputs())
            blocks = tuple(
                self._block(inner, inner.paramNode().outputs(), inner.returnNode()) for inner in node.blocks()
            )
            yield _Step(kind, inputs, outputs, node, _function(kind, node), blocks)

    def _place(self, value: Any) -> int:
        return self._places.setdefault(value.debugName(), len(self._places))


def line_of(node: Any) -> user_lines.Line | None:
    """The node's own, or the nearest of those that use it."""
    for _ in range(6):
        if node is None:
            return None
        if (line := script_graphs.line_of(node)) is not None:
            return line
        users = [use.user for output in node.outputs() for use in output.uses()]
        node = users[0] if users else None
    return None


def plain(value: Any) -> Any:
    """With numbers where tensors of no dims stand for them."""
    match value:
        case NumberTensor():
            return as_tensor(value)
        case list():
            return [plain(item) for item in value]
        case tuple():
            return tuple(plain(item) for item in value)
        case dict():
            return {key: plain(item) for key, item in value.items()}
    return value


def _constant(node: script_graphs.Node) -> Any:
    try:
        return node.output().toIValue()
    except RuntimeError as error:
        raise Unsupported("a constant that Python cannot have") from error


def _truth(value: Any) -> bool:
    if isinstance(value, NumberTensor):
        value = value.value
    return bool(value)


def _function(kind: str, node: script_graphs.Node) -> Callable[..., Any]:
    if kind in ("prim::If", "prim::Loop"):
        return _never
    if kind == "prim::GetAttr":
        name = node.s("name")
        return lambda owner: _attribute(owner, name)
    if kind in _PRIMS:
        return _PRIMS[kind]
    namespace, _, name = kind.partition("::")
    if name in _NUMBERS_ALONE and namespace == "aten":
        return _of_numbers(name, _overload(node))
    if namespace == "prim":
        return partial(_unsupported, kind)
    return _of_tensors(kind, _overload(node))


def _never(*_: Any) -> Any:
    raise AssertionError


def _unsupported(kind: str, *_: Any) -> Any:
    raise Unsupported(kind)


def _attribute(owner: Any, name: str) -> Any:
    if isinstance(owner, torch.ScriptObject) and not hasattr(owner, name):
        raise Unsupported(f"the attribute {name!r} of an object")
    value = getattr(owner, name)
    # What is written into it would stay there, for the next call.
    match value:
        case list():
            return tuple(value)
        case dict():
            return MappingProxyType(value)
    return value


def _overload(node: script_graphs.Node) -> Any:
    """None where Python has no such operator."""
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


def _of_tensors(kind: str, overload: Any) -> Callable[..., Any]:
    if overload is None:
        return partial(_unsupported, kind)
    promotes = kind in _PROMOTING

    def run(*given: Any) -> Any:
        values: Sequence[Any] = given
        if any(isinstance(value, NumberTensor) for value in values) and not any(map(_has_tensor, values)):
            return scalar_tensors.computed(kind, values)
        if promotes:
            values = _side_by_side(values)
        return _called(overload, [plain(value) for value in values], kind)

    return run


def _of_numbers(name: str, overload: Any) -> Callable[..., Any]:
    """Where tensors may stand instead, torch's operator runs."""
    alone = _NUMBERS_ALONE[name]

    def run(*values: Any) -> Any:
        if not any(map(_has_tensor, values)) and not any(isinstance(value, NumberTensor) for value in values):
            try:
                return alone(*values)
            except (TypeError, AttributeError) as error:
                raise Unsupported(f"aten::{name}: {error}") from error
        return _of_tensors(f"aten::{name}", overload)(*values)

    return run


def _called(overload: Any, values: Sequence[Any], kind: str) -> Any:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument, value in zip(overload._schema.arguments, values, strict=False):
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    # A number where the schema has a tensor, as a trace has a size beside tensors.
    if kind in _PROMOTING and not all(isinstance(value, torch.Tensor) for value in args[:2]):
        return getattr(torch.ops.aten, kind.removeprefix("aten::"))(*args, **kwargs)
    return overload(*args, **kwargs)


def _side_by_side(values: Sequence[Any]) -> list[Any]:
    """A number for the tensor that stands for it, where both lead to the same datatype."""
    first, second, *others = values
    if isinstance(second, NumberTensor) and isinstance(first, torch.Tensor):
        second = _number_beside(second, first)
    elif isinstance(first, NumberTensor) and isinstance(second, torch.Tensor):
        first = as_tensor(first)
    return [first, second, *others]


def _number_beside(number: NumberTensor, tensor: torch.Tensor) -> Any:
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


def _whole(value: Any) -> Any:
    """aten::Int, and where a number is wanted of a tensor."""
    if isinstance(value, NumberTensor):
        return scalar_tensors.whole(value)
    if isinstance(value, torch.Tensor):
        return int(value.item())
    return torch.sym_int(value) if isinstance(value, float | torch.SymFloat) else value


def _scalar(value: Any) -> Any:
    if isinstance(value, NumberTensor):
        return value.value
    return value.item() if isinstance(value, torch.Tensor) else value


def _real_number(value: Any) -> Any:
    value = _scalar(value)
    return torch.sym_float(value) if not isinstance(value, float | torch.SymFloat) else value


def _size(tensor: Any, dim: Any = None) -> Any:
    if isinstance(tensor, NumberTensor):
        return []
    return list(tensor.shape) if dim is None else tensor.shape[dim]


def _in_bounds(values: Any, place: Any) -> Any:
    try:
        return values[place]
    except (IndexError, KeyError) as error:
        raise Raised(f"it has no item {place}") from error


def _sliced(values: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return values[start:end:step]


def _dict(*values: Any) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


def _appended(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


def _extended(values: list[Any], others: list[Any]) -> None:
    values.extend(others)


def _set_item(values: Any, place: Any, value: Any) -> Any:
    values[place] = value
    return values


def _raise(*values: Any) -> Any:
    raise Raised(str(next((value for value in values if isinstance(value, str)), "prim::RaiseException")))


_NUMBERS_OF_DTYPES = {dtype: number for number, dtype in DTYPES.items()}

_PROMOTING = {
    f"aten::{name}" for name in "add sub rsub mul div true_divide floor_divide remainder pow eq ne lt le gt ge".split()
}
_PRIMS: dict[str, Callable[..., Any]] = {
    "prim::ListConstruct": lambda *values: list(values),
    "prim::TupleConstruct": lambda *values: values,
    "prim::DictConstruct": _dict,
    "prim::ListUnpack": lambda values: values[0] if len(values) == 1 else values,
    "prim::TupleUnpack": lambda values: values[0] if len(values) == 1 else values,
    "prim::TupleIndex": _in_bounds,
    "prim::TupleSlice": _sliced,
    "prim::NumToTensor": scalar_tensors.of_number,
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
    "aten::numel": lambda tensor: 1 if isinstance(tensor, NumberTensor) else tensor.numel(),
    "aten::dim": lambda tensor: 0 if isinstance(tensor, NumberTensor) else tensor.dim(),
    "aten::Int": _whole,
    "aten::IntImplicit": _whole,
    "aten::ScalarImplicit": _scalar,
    "aten::Float": _real_number,
    "aten::FloatImplicit": _real_number,
    "aten::Bool": _truth,
    "aten::item": _scalar,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__not__": operator.not_,
    "aten::__getitem__": _in_bounds,
    "aten::_set_item": _set_item,
    "aten::append": _appended,
    "aten::extend": _extended,
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
_LIKE_TENSORS = "add sub mul div floor_divide remainder neg pow eq ne lt le gt ge"
# Of numbers where no tensor is among the operands.
_NUMBERS_ALONE: dict[str, Callable[..., Any]] = {
    **{name: scalar_tensors.ARITHMETIC[name] for name in _LIKE_TENSORS.split()},
    "floordiv": operator.floordiv,
    "len": len,
    "slice": _sliced,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "abs": abs,
    "__and__": lambda first, second: first and second,
    "__or__": lambda first, second: first or second,
    "__range_length": lambda low, high, step: len(range(low, high, step)),
    "__derive_index": lambda turn, start, step: start + turn * step,
}
