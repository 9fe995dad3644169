"""An input tensor from JSON: an object as in the protocol, or nested lists whose datatype the contract gives."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from pydantic import JsonValue

from service.api.json_members import describe
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.dims import SymbolicShape
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.violations import datatype_mismatch, shape_mismatch
from tracehouse.errors import InvalidTensor
from tracehouse.tensors.tensor import BY_NAME, Datatype, Tensor, infer_shape, pack

TENSOR_MEMBERS = {"name", "datatype", "shape", "data", "parameters"}
_DIM_MAX = 2**48
_DIMS_MAX = 32


@dataclass(frozen=True, slots=True)
class ExpectedInput:
    """What the contract says of an input. A dim is None if it may have several sizes, or buckets differ in it.

    `others` are the shapes of other ranks that it may have.
    """

    spec: InputSpec
    dims: tuple[int | None, ...]
    others: Sequence[SymbolicShape] = ()

    def dims_of(self, count: int) -> list[int | None]:
        """Return the dims of so many values, of which one may follow from their number."""
        dims = list(self.dims)
        known = prod(dim for dim in dims if dim is not None)
        if dims.count(None) == 1 and known and not count % known:
            dims[dims.index(None)] = count // known
        return dims


def expected_inputs(contracts: Sequence[MethodContract]) -> dict[str, ExpectedInput]:
    """Return the inputs of a method by name; `contracts` has one contract, or one for each bucket."""
    return {
        specs[0].name: ExpectedInput(
            specs[0],
            tuple(_only_size(dims) for dims in zip(*(spec.shape for spec in specs), strict=True)),
            contracts[0].other_shapes(specs[0].name),  # with buckets, there are none
        )
        for specs in zip(*(contract.inputs for contract in contracts), strict=True)
    }


def _only_size(dims: Iterable[int | str]) -> int | None:
    first, *others = set(dims)
    return None if others or isinstance(first, str) else first


def only_input(expected: Mapping[str, ExpectedInput]) -> ExpectedInput:
    """Return the one input of a model. Raises InvalidTensor."""
    if len(expected) != 1:
        raise InvalidTensor(
            f"the model has {len(expected)} inputs, and the body is one tensor without a name",
            inputs=sorted(expected), remedy="Send all inputs, under their names.",
        )  # fmt: skip
    return next(iter(expected.values()))


def read_tensor(value: JsonValue, expected: ExpectedInput) -> Tensor:
    """Read either form. Raises InvalidTensor or ShapeMismatch."""
    name = expected.spec.name
    if isinstance(value, dict):
        if unknown := value.keys() - TENSOR_MEMBERS:
            raise InvalidTensor(f"input {name!r} has no member {describe(min(unknown))}", input=name)
        return read_object(value, expected)
    if value is None or (isinstance(value, str) and expected.dims):
        raise InvalidTensor(f"input {name!r} cannot be {describe(value)}", input=name, actual=describe(value))
    shape = _shape_of_lists(value, expected)
    try:
        return Tensor(name, expected.spec.datatype, shape, pack(expected.spec.datatype, shape, value))
    except InvalidTensor as error:
        if "datatype" in error.facts:
            raise InvalidTensor(f"input {name!r}: {error.detail}", input=name, **error.facts) from error
        raise shape_mismatch(expected.spec, "ragged", expected.others) from error


def read_object(members: Mapping[str, JsonValue], expected: ExpectedInput) -> Tensor:
    """Read an object that has no unknown members. Raises InvalidTensor, DatatypeMismatch or ShapeMismatch."""
    name = expected.spec.name
    datatype = _datatype_of(members, expected)
    if "data" not in members:
        raise InvalidTensor(f"input {name!r} has no data", input=name)
    data = members["data"]
    shape = _shape(members["shape"], name) if "shape" in members else _shape_of_data(data, expected)
    try:
        return Tensor(name, datatype, shape, pack(datatype, shape, data))
    except InvalidTensor as error:
        raise InvalidTensor(f"input {name!r}: {error.detail}", input=name, **error.facts) from error


def read_spec(members: Mapping[str, JsonValue], expected: ExpectedInput) -> tuple[Datatype, tuple[int, ...]]:
    """Return datatype and shape of a tensor whose data stand elsewhere. Raises InvalidTensor or DatatypeMismatch."""
    name = expected.spec.name
    if "shape" not in members:
        raise InvalidTensor(f"input {name!r} has no shape", input=name)
    return _datatype_of(members, expected), _shape(members["shape"], name)


def _datatype_of(members: Mapping[str, JsonValue], expected: ExpectedInput) -> Datatype:
    return _datatype(members.get("datatype", expected.spec.datatype.value), expected.spec)


def _datatype(value: JsonValue, spec: InputSpec) -> Datatype:
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]
    raise datatype_mismatch(spec, describe(value))


def _shape(value: JsonValue, name: str) -> tuple[int, ...]:
    dims = value if isinstance(value, list) else [None]
    if len(dims) > _DIMS_MAX or not all(type(dim) is int and 0 <= dim <= _DIM_MAX for dim in dims):
        raise InvalidTensor(f"input {name!r}: a shape is a list of sizes", input=name, actual=describe(value))
    return tuple(dims)  # type: ignore[arg-type] # each is an int


def _shape_of_data(data: JsonValue, expected: ExpectedInput) -> tuple[int, ...]:
    """Nested data spells its shape. Flat data has that of the example, where one dim may follow from the count."""
    if len(shape := infer_shape(data)) > 1:
        return _shape_of_lists(data, expected)
    return _whole_shape(expected.dims_of(shape[0] if shape else 1), expected)


def _shape_of_lists(value: JsonValue, expected: ExpectedInput) -> tuple[int, ...]:
    """Return the shape that nested lists spell. Lists end at a dim of size 0; the contract gives the dims after it.

    Where the lists end so, they are read in the rank of the example if they can be, whatever other ranks there are.
    """
    shape = infer_shape(value)
    rank = len(expected.dims)
    if len(shape) == rank:
        return shape
    if len(shape) > rank or 0 not in shape:
        if len(shape) in map(len, expected.others):
            return shape
        raise shape_mismatch(expected.spec, list(shape), expected.others)
    return _whole_shape(shape + expected.dims[len(shape) :], expected)


def _whole_shape(dims: Sequence[int | None], expected: ExpectedInput) -> tuple[int, ...]:
    shape = tuple(dim for dim in dims if dim is not None)
    if len(shape) < len(dims):
        unknown = [place for place, dim in enumerate(dims) if dim is None]
        raise InvalidTensor(
            f"input {expected.spec.name!r}: its data does not tell how long dim {unknown[0]} is",
            input=expected.spec.name,
            dims=unknown,
            remedy="Send the tensor as an object with its `shape` beside its `data`.",
        )
    return shape
