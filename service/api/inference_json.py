"""An inference request, in any of the forms that a body may have, read by the artifact's contract.

- the protocol's: `{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}]}`
- by name: `{"inputs": {"x": [[1.0, 2.0]]}}`, where a key names an input's leaf or an argument
- as a call: `{"args": [[[1.0, 2.0]]], "kwargs": {}}`, nested as the model's inputs nest

A tensor is an object as in the protocol's form, or nested lists: then the contract gives its datatype, and the lists
spell its shape.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from pydantic import JsonValue

from tracehouse.contract.contract import MethodContract
from tracehouse.contract.dims import format_sizes
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.structure import (
    BakedLeaf,
    DictNode,
    FixedLeaf,
    ListNode,
    Structure,
    TensorLeaf,
    TupleNode,
    means_same_value,
    tensors_of,
)
from tracehouse.contract.violations import datatype_mismatch, shape_mismatch
from tracehouse.errors import (
    BakedArgument,
    ContractViolation,
    InvalidRequest,
    InvalidTensor,
    MissingInput,
    NoBucket,
    ShapeMismatch,
    SizeOutOfRange,
    SizesDisagree,
    StructureMismatch,
    UnexpectedInput,
)
from tracehouse.tensors.tensor import Datatype, Tensor, infer_shape, pack

_MEMBERS = {"id", "parameters", "inputs", "outputs", "args", "kwargs"}
_TENSOR_MEMBERS = {"name", "datatype", "shape", "data", "parameters"}
_DIM_MAX = 2**48
_DIMS_MAX = 32
_SHOWN_MAX = 4


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """`inputs` fit the contract and stand in its order; `outputs` are the names to answer with, in that order.

    `warnings` say what of the inputs was never tried. `bucket` is the place of the one that takes them.
    """

    inputs: list[Tensor]
    outputs: list[str]
    id: str | None = None
    warnings: Sequence[str] = ()
    bucket: int = 0


@dataclass(frozen=True, slots=True)
class InBucket:
    """A method as the artifact for these sizes has it, where there is one for each of several."""

    sizes: Mapping[str, int]
    method: MethodContract


def read(body: JsonValue, method: MethodContract, *, is_open: bool = False) -> InferenceRequest:
    """Raises InvalidRequest or InvalidTensor for what makes no sense, and a ContractViolation for what does not fit."""
    return read_for_one(body, [InBucket({}, method)], is_open=is_open)


def read_for_one(body: JsonValue, buckets: Sequence[InBucket], *, is_open: bool = False) -> InferenceRequest:
    """The same for the first bucket that takes what was sent. Raises NoBucket as well."""
    members = _members(body, _MEMBERS, "")
    _mapping(members.get("parameters", {}), "/parameters")
    method, leaves = buckets[0].method, _leaves([bucket.method for bucket in buckets])
    sent = list(_once(_tensors(members, method, leaves)))
    place = _taking(sent, buckets, is_open=is_open) if len(buckets) > 1 else 0
    accepted = buckets[place].method.accept(sent, is_open=is_open)
    return InferenceRequest(
        inputs=accepted.tensors,
        outputs=_outputs(members.get("outputs"), method),
        id=_id(members.get("id")),
        warnings=accepted.warnings,
        bucket=place,
    )


def _taking(sent: Sequence[Tensor], buckets: Sequence[InBucket], *, is_open: bool) -> int:
    """An open contract lets nothing through into another bucket than that of its sizes, for they are baked in."""
    specs = [tensor.spec for tensor in sent]
    for place, bucket in enumerate(buckets):
        if bucket.method.takes(specs):
            return place
    refused: list[ContractViolation] = []
    for place, bucket in enumerate(buckets):
        try:
            bucket.method.accept(sent, is_open=is_open and _is_of(sent, bucket, buckets))
        except _OF_SIZES as error:
            refused.append(error)
        else:
            return place
    raise _no_bucket(sent, buckets, refused)


def _is_of(sent: Sequence[Tensor], bucket: InBucket, buckets: Sequence[InBucket]) -> bool:
    """Whether dims that buckets' examples have otherwise have the size that this one's has."""
    shapes = {tensor.name: tensor.shape for tensor in sent}
    for each in zip(bucket.method.inputs, *(other.method.inputs for other in buckets), strict=True):
        dims = zip(shapes.get(each[0].name, ()), *(spec.example for spec in each), strict=False)
        if any(size != own and {own, *others} != {own} for size, own, *others in dims):
            return False
    return True


_OF_SIZES = (ShapeMismatch, SizesDisagree, SizeOutOfRange)


def _no_bucket(
    sent: Sequence[Tensor], buckets: Sequence[InBucket], refused: Sequence[ContractViolation]
) -> ContractViolation:
    if all("dim" not in error.facts and "sizes" not in error.facts for error in refused):
        return refused[0]  # its rank: no bucket has another
    shapes = ", ".join(f"{tensor.name!r} as {list(tensor.shape)}" for tensor in sent[:_SHOWN_MAX])
    return NoBucket(
        f"no bucket takes {shapes}; there are those of {'; '.join(format_sizes(bucket.sizes) for bucket in buckets)}",
        actual={tensor.name: list(tensor.shape) for tensor in sent},
        buckets=[dict(bucket.sizes) for bucket in buckets],
        refused=[
            {"bucket": dict(bucket.sizes), "code": error.slug(), "detail": error.detail}
            for bucket, error in zip(buckets, refused, strict=True)
        ],
    )


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An input to read. A dim whose size the contract leaves open, or that buckets have otherwise, is None."""

    spec: InputSpec
    dims: tuple[int | None, ...]


def _leaves(methods: Sequence[MethodContract]) -> dict[str, _Leaf]:
    return {
        each[0].name: _Leaf(each[0], tuple(_only(dims) for dims in zip(*(spec.shape for spec in each), strict=True)))
        for each in zip(*(method.inputs for method in methods), strict=True)
    }


def _only(dims: Iterable[int | str]) -> int | None:
    first, *others = set(dims)
    return None if others or isinstance(first, str) else first


def _tensors(body: Mapping[str, JsonValue], method: MethodContract, leaves: Mapping[str, _Leaf]) -> Iterator[Tensor]:
    is_call = "args" in body or "kwargs" in body
    if is_call == ("inputs" in body):
        raise _invalid("", "give either inputs, or args and kwargs")
    if is_call:
        args, kwargs = _list(body.get("args", []), "/args"), _mapping(body.get("kwargs", {}), "/kwargs")
        return _of_call(args, kwargs, method, leaves)
    if isinstance(inputs := body["inputs"], dict):
        return _by_name(inputs, method, leaves)
    return _of_protocol(_list(inputs, "/inputs"), leaves)


def _of_protocol(inputs: list[JsonValue], leaves: Mapping[str, _Leaf]) -> Iterator[Tensor]:
    for index, given in enumerate(inputs):
        pointer = f"/inputs/{index}"
        members = _members(given, _TENSOR_MEMBERS, pointer)
        name = members.get("name")
        if not isinstance(name, str):
            raise _invalid(f"{pointer}/name", "a tensor needs a name")
        if name not in leaves:
            raise _unexpected(name, leaves)
        yield _of_object(members, leaves[name])


def _by_name(inputs: Mapping[str, JsonValue], method: MethodContract, leaves: Mapping[str, _Leaf]) -> Iterator[Tensor]:
    arguments = {argument.name: argument for argument in method.arguments}
    for name, value in inputs.items():
        if name in leaves:
            yield _tensor(value, leaves[name])
        elif name in arguments:
            yield from _nested(value, arguments[name].structure, leaves, name)
        else:
            raise _unexpected(name, {*leaves, *arguments})


def _of_call(
    args: list[JsonValue], kwargs: Mapping[str, JsonValue], method: MethodContract, leaves: Mapping[str, _Leaf]
) -> Iterator[Tensor]:
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
    for argument in method.arguments:
        if argument.name in given:
            yield from _nested(given[argument.name], argument.structure, leaves, argument.name)


def _nested(value: JsonValue, structure: Structure, leaves: Mapping[str, _Leaf], path: str) -> Iterator[Tensor]:
    """The tensors in `value`. How deep this goes is the contract's to say, never the body's."""
    match structure:
        case TensorLeaf():
            yield _tensor(value, leaves[structure.tensor])
        case BakedLeaf():
            if not means_same_value(value, structure.baked):
                raise BakedArgument(
                    f"{path!r} was {structure.baked!r} when the model was traced, and that is baked in",
                    input=path, expected=structure.baked, actual=_shown(value),
                )  # fmt: skip
        case FixedLeaf():
            if not means_same_value(value, structure.fixed):
                raise BakedArgument(
                    f"{path!r} was {structure.fixed!r} when the model was checked, and nothing else was tried",
                    input=path, expected=structure.fixed, actual=_shown(value),
                )  # fmt: skip
        case ListNode():
            yield from _items(value, structure.list, leaves, path)
        case TupleNode():
            inner = value["tuple"] if isinstance(value, dict) and value.keys() == {"tuple"} else value
            yield from _items(inner, structure.tuple, leaves, path)
        case DictNode():
            yield from _entries(value, structure.mapping, leaves, path)


def _items(value: JsonValue, inner: Any, leaves: Mapping[str, _Leaf], path: str) -> Iterator[Tensor]:
    if not isinstance(value, list) or len(value) != len(inner):
        raise _nests_otherwise(path, f"a list of {len(inner)}", value)
    for index, (item, structure) in enumerate(zip(value, inner, strict=True)):
        yield from _nested(item, structure, leaves, f"{path}.{index}")


def _entries(
    value: JsonValue, inner: Mapping[str, Structure], leaves: Mapping[str, _Leaf], path: str
) -> Iterator[Tensor]:
    if not isinstance(value, dict) or not value.keys() <= inner.keys():
        raise _nests_otherwise(path, f"an object of {sorted(inner)}", value)
    for key, structure in inner.items():
        if key in value:
            yield from _nested(value[key], structure, leaves, f"{path}.{key}")
        elif any(tensors_of(structure)):  # else the contract has all of it
            raise MissingInput(f"input {f'{path}.{key}'!r} is missing", input=f"{path}.{key}")


def _tensor(value: JsonValue, leaf: _Leaf) -> Tensor:
    name = leaf.spec.name
    if isinstance(value, dict):
        if unknown := value.keys() - _TENSOR_MEMBERS:
            raise InvalidTensor(f"input {name!r} has no member {_shown(min(unknown))}", input=name)
        return _of_object(value, leaf)
    if value is None or (isinstance(value, str) and leaf.dims):
        raise InvalidTensor(f"input {name!r} cannot be {_shown(value)}", input=name, actual=_shown(value))
    shape = _spelled(value, leaf)
    try:
        return Tensor(name, leaf.spec.datatype, shape, pack(leaf.spec.datatype, shape, value))
    except InvalidTensor as error:
        if "datatype" in error.facts:
            raise InvalidTensor(f"input {name!r}: {error.detail}", input=name, **error.facts) from error
        raise shape_mismatch(leaf.spec, "ragged") from error


def _spelled(value: JsonValue, leaf: _Leaf) -> tuple[int, ...]:
    """The shape that nested lists spell. Below a dim of size 0 they can say nothing, and the contract does."""
    shape = infer_shape(value)
    rank = len(leaf.dims)
    if len(shape) == rank:
        return shape
    if len(shape) > rank or 0 not in shape:
        raise shape_mismatch(leaf.spec, list(shape))
    return _filled(shape + leaf.dims[len(shape) :], leaf)


def _filled(dims: Sequence[int | None], leaf: _Leaf) -> tuple[int, ...]:
    known = tuple(dim for dim in dims if dim is not None)
    if len(known) < len(dims):
        unknown = [place for place, dim in enumerate(dims) if dim is None]
        raise InvalidTensor(
            f"input {leaf.spec.name!r}: its data does not tell how long dim {unknown[0]} is", input=leaf.spec.name,
            dims=unknown, remedy="Send the tensor as an object with its `shape` beside its `data`.",
        )  # fmt: skip
    return known


def _of_object(members: Mapping[str, JsonValue], leaf: _Leaf) -> Tensor:
    name = leaf.spec.name
    datatype = _datatype(members.get("datatype", leaf.spec.datatype.value), leaf.spec)
    if "data" not in members:
        raise InvalidTensor(f"input {name!r} has no data", input=name)
    data = members["data"]
    shape = _shape(members["shape"], name) if "shape" in members else _shape_of(data, leaf)
    try:
        return Tensor(name, datatype, shape, pack(datatype, shape, data))
    except InvalidTensor as error:
        raise InvalidTensor(f"input {name!r}: {error.detail}", input=name, **error.facts) from error


def _shape_of(data: JsonValue, leaf: _Leaf) -> tuple[int, ...]:
    """Of data that is nested, what it spells; of flat data, the contract's, where one dim may follow from the count."""
    if isinstance(data, list) and data and isinstance(data[0], list):
        return _spelled(data, leaf)
    dims = list(leaf.dims)
    if dims.count(None) == 1:
        count, others = len(data) if isinstance(data, list) else 1, prod(dim for dim in dims if dim is not None)
        if others and not count % others:
            dims[dims.index(None)] = count // others
    return _filled(dims, leaf)


def _datatype(value: JsonValue, spec: InputSpec) -> Datatype:
    if isinstance(value, str) and value in Datatype.__members__:
        return Datatype(value)
    raise datatype_mismatch(spec, _shown(value))


def _shape(value: JsonValue, name: str) -> tuple[int, ...]:
    dims = value if isinstance(value, list) else [None]
    if len(dims) > _DIMS_MAX or not all(type(dim) is int and 0 <= dim <= _DIM_MAX for dim in dims):
        raise InvalidTensor(f"input {name!r}: a shape is a list of sizes", input=name, actual=_shown(value))
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
