"""An inference request, in any of the forms that a body may have, read by the artifact's contract.

- the protocol's: `{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}]}`
- by name: `{"inputs": {"x": [[1.0, 2.0]]}}`, where a key names an input's leaf or an argument
- as a call: `{"args": [[[1.0, 2.0]]], "kwargs": {}}`, nested as the model's inputs nest

A tensor is an object as in the protocol's form, or nested lists: then the contract gives its datatype and shape.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from service.domain.contract import (
    BakedLeaf,
    DictNode,
    FixedLeaf,
    ListNode,
    MethodContract,
    Structure,
    TensorLeaf,
    TupleNode,
    datatype_mismatch,
    is_sent_as,
    shape_mismatch,
    tensors_of,
)
from service.domain.errors import (
    BakedArgument,
    InvalidRequest,
    InvalidTensor,
    MissingInput,
    StructureMismatch,
    UnexpectedInput,
)
from service.domain.tensor import Datatype, Tensor, TensorSpec, infer_shape, pack

_MEMBERS = {"id", "parameters", "inputs", "outputs", "args", "kwargs"}
_TENSOR_MEMBERS = {"name", "datatype", "shape", "data", "parameters"}
_DIM_MAX = 2**48
_DIMS_MAX = 32


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """`inputs` fit the contract and stand in its order; `outputs` are the names to answer with, in that order."""

    inputs: list[Tensor]
    outputs: list[str]
    id: str | None = None


def read(body: JsonValue, method: MethodContract) -> InferenceRequest:
    """Raises InvalidRequest or InvalidTensor for what makes no sense, and a ContractViolation for what does not fit."""
    members = _members(body, _MEMBERS, "")
    _mapping(members.get("parameters", {}), "/parameters")
    return InferenceRequest(
        inputs=method.accept(_once(_tensors(members, method))),
        outputs=_outputs(members.get("outputs"), method),
        id=_id(members.get("id")),
    )


def _tensors(body: Mapping[str, JsonValue], method: MethodContract) -> Iterator[Tensor]:
    is_call = "args" in body or "kwargs" in body
    if is_call == ("inputs" in body):
        raise _invalid("", "give either inputs, or args and kwargs")
    if is_call:
        return _of_call(_list(body.get("args", []), "/args"), _mapping(body.get("kwargs", {}), "/kwargs"), method)
    if isinstance(inputs := body["inputs"], dict):
        return _by_name(inputs, method)
    return _of_protocol(_list(inputs, "/inputs"), method)


def _of_protocol(inputs: list[JsonValue], method: MethodContract) -> Iterator[Tensor]:
    specs = _specs(method)
    for index, given in enumerate(inputs):
        pointer = f"/inputs/{index}"
        members = _members(given, _TENSOR_MEMBERS, pointer)
        name = members.get("name")
        if not isinstance(name, str):
            raise _invalid(f"{pointer}/name", "a tensor needs a name")
        if name not in specs:
            raise _unexpected(name, specs)
        yield _of_object(members, specs[name])


def _by_name(inputs: Mapping[str, JsonValue], method: MethodContract) -> Iterator[Tensor]:
    specs = _specs(method)
    arguments = {argument.name: argument for argument in method.arguments}
    for name, value in inputs.items():
        if name in specs:
            yield _tensor(value, specs[name])
        elif name in arguments:
            yield from _nested(value, arguments[name].structure, specs, name)
        else:
            raise _unexpected(name, {*specs, *arguments})


def _of_call(args: list[JsonValue], kwargs: Mapping[str, JsonValue], method: MethodContract) -> Iterator[Tensor]:
    names = [argument.name for argument in method.arguments]
    if len(args) > len(names):
        raise UnexpectedInput(
            f"there are {len(names)} arguments, not {len(args)}", expected=len(names), actual=len(args), inputs=names
        )
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise _unexpected(name, names)
        if name in given:
            raise UnexpectedInput(f"argument {name!r} is in args and in kwargs", input=name, inputs=names)
        given[name] = value
    specs = _specs(method)
    for argument in method.arguments:
        if argument.name in given:
            yield from _nested(given[argument.name], argument.structure, specs, argument.name)


def _nested(value: JsonValue, structure: Structure, specs: Mapping[str, TensorSpec], path: str) -> Iterator[Tensor]:
    """The tensors in `value`. How deep this goes is the contract's to say, never the body's."""
    match structure:
        case TensorLeaf():
            yield _tensor(value, specs[structure.tensor])
        case BakedLeaf():
            if not is_sent_as(value, structure.baked):
                raise BakedArgument(
                    f"{path!r} was {structure.baked!r} when the model was traced, and that is baked in",
                    input=path, expected=structure.baked, actual=_shown(value),
                )  # fmt: skip
        case FixedLeaf():
            if not is_sent_as(value, structure.fixed):
                raise BakedArgument(
                    f"{path!r} was {structure.fixed!r} when the model was checked, and nothing else was tried",
                    input=path, expected=structure.fixed, actual=_shown(value),
                )  # fmt: skip
        case ListNode():
            yield from _items(value, structure.list, specs, path)
        case TupleNode():
            inner = value["tuple"] if isinstance(value, dict) and value.keys() == {"tuple"} else value
            yield from _items(inner, structure.tuple, specs, path)
        case DictNode():
            yield from _entries(value, structure.mapping, specs, path)


def _items(value: JsonValue, inner: Any, specs: Mapping[str, TensorSpec], path: str) -> Iterator[Tensor]:
    if not isinstance(value, list) or len(value) != len(inner):
        raise _nests_otherwise(path, f"a list of {len(inner)}", value)
    for index, (item, structure) in enumerate(zip(value, inner, strict=True)):
        yield from _nested(item, structure, specs, f"{path}.{index}")


def _entries(
    value: JsonValue, inner: Mapping[str, Structure], specs: Mapping[str, TensorSpec], path: str
) -> Iterator[Tensor]:
    if not isinstance(value, dict) or not value.keys() <= inner.keys():
        raise _nests_otherwise(path, f"an object of {sorted(inner)}", value)
    for key, structure in inner.items():
        if key in value:
            yield from _nested(value[key], structure, specs, f"{path}.{key}")
        elif any(tensors_of(structure)):  # else the contract has all of it
            raise MissingInput(f"input {f'{path}.{key}'!r} is missing", input=f"{path}.{key}")


def _tensor(value: JsonValue, spec: TensorSpec) -> Tensor:
    if isinstance(value, dict):
        if unknown := value.keys() - _TENSOR_MEMBERS:
            raise InvalidTensor(f"input {spec.name!r} has no member {_shown(min(unknown))}", input=spec.name)
        return _of_object(value, spec)
    if value is None or (isinstance(value, str) and spec.shape):
        raise InvalidTensor(f"input {spec.name!r} cannot be {_shown(value)}", input=spec.name, actual=_shown(value))
    shape = infer_shape(value)
    # Below a dimension of size 0 nested lists can say nothing.
    spelled = spec.shape[: spec.shape.index(0) + 1] if 0 in spec.shape else spec.shape
    if shape != spelled:
        raise shape_mismatch(spec, list(shape))
    try:
        data = pack(spec.datatype, spec.shape, value)
    except InvalidTensor as error:
        if "datatype" in error.facts:
            raise InvalidTensor(f"input {spec.name!r}: {error.detail}", input=spec.name, **error.facts) from error
        raise shape_mismatch(spec, "ragged") from error
    return Tensor(spec.name, spec.datatype, spec.shape, data)


def _of_object(members: Mapping[str, JsonValue], spec: TensorSpec) -> Tensor:
    datatype = _datatype(members.get("datatype", spec.datatype.value), spec)
    shape = _shape(members["shape"], spec) if "shape" in members else spec.shape
    if "data" not in members:
        raise InvalidTensor(f"input {spec.name!r} has no data", input=spec.name)
    try:
        return Tensor(spec.name, datatype, shape, pack(datatype, shape, members["data"]))
    except InvalidTensor as error:
        raise InvalidTensor(f"input {spec.name!r}: {error.detail}", input=spec.name, **error.facts) from error


def _datatype(value: JsonValue, spec: TensorSpec) -> Datatype:
    if isinstance(value, str) and value in Datatype.__members__:
        return Datatype(value)
    raise datatype_mismatch(spec, _shown(value))


def _shape(value: JsonValue, spec: TensorSpec) -> tuple[int, ...]:
    dims = value if isinstance(value, list) else [None]
    if len(dims) > _DIMS_MAX or not all(type(dim) is int and 0 <= dim <= _DIM_MAX for dim in dims):
        raise InvalidTensor(f"input {spec.name!r}: a shape is a list of sizes", input=spec.name, actual=_shown(value))
    return tuple(dims)  # type: ignore[arg-type] # each is an int


def _once(tensors: Iterator[Tensor]) -> Iterator[Tensor]:
    seen = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise UnexpectedInput(f"input {tensor.name!r} was sent twice", input=tensor.name)
        seen.add(tensor.name)
        yield tensor


def _outputs(value: JsonValue, method: MethodContract) -> list[str]:
    known = [spec.name for spec in method.outputs]
    if value is None:
        return known
    names = []
    for index, given in enumerate(_list(value, "/outputs")):
        name = _members(given, {"name", "parameters"}, f"/outputs/{index}").get("name")
        if name not in known:
            raise _invalid(f"/outputs/{index}/name", f"there is no output {_shown(name)}", outputs=known)
        names.append(str(name))
    return list(dict.fromkeys(names)) or known


def _id(value: JsonValue) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise _invalid("/id", f"an id is a string, not {_shown(value)}")


def _specs(method: MethodContract) -> dict[str, TensorSpec]:
    return {spec.name: spec for spec in method.inputs}


def _members(value: JsonValue, known: set[str], pointer: str) -> dict[str, JsonValue]:
    members = _mapping(value, pointer)
    if unknown := members.keys() - known:
        name = min(unknown)
        raise _invalid(pointer, f"there is no member {_shown(name)} here", members=sorted(known))
    return members


def _mapping(value: JsonValue, pointer: str) -> dict[str, JsonValue]:
    if isinstance(value, dict):
        return value
    raise _invalid(pointer, f"this is an object, not {_shown(value)}")


def _list(value: JsonValue, pointer: str) -> list[JsonValue]:
    if isinstance(value, list):
        return value
    raise _invalid(pointer, f"this is a list, not {_shown(value)}")


def _invalid(pointer: str, detail: str, **facts: Any) -> InvalidRequest:
    return InvalidRequest(
        f"{pointer or 'the body'}: {detail}", errors=[{"pointer": pointer, "detail": detail}], **facts
    )


def _unexpected(name: str, known: Any) -> UnexpectedInput:
    return UnexpectedInput(f"there is no input {_shown(name)}", input=name[:80], inputs=sorted(known))


def _nests_otherwise(path: str, expected: str, value: JsonValue) -> StructureMismatch:
    return StructureMismatch(
        f"{path!r} is {expected}, not {_shown(value)}", input=path, expected=expected, actual=_shown(value)
    )


def _shown(value: JsonValue) -> str:
    """Short, however much was sent."""
    match value:
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"an object of {[key[:40] for key in sorted(value)[:8]]}"
        case None:
            return "null"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
