"""The body of an inference request, in any of its forms, as named tensors.

- the protocol's: `{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}]}`
- by name: `{"inputs": {"x": [[1.0, 2.0]]}}`, where a key names an input's leaf or an argument
- as a call: `{"args": [[[1.0, 2.0]]], "kwargs": {}}`, nested as the model's inputs nest

The contract is needed to read the latter two: it gives the structure, and the datatype of plain nested lists.
Whether it takes the tensors is decided in `service.serving.inference`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import JsonValue

from service.api.http.body import parse_json
from service.api.input_tensor import TENSOR_MEMBERS, ExpectedInput, expected_inputs, read_object, read_tensor
from service.api.json_members import as_list, as_members, as_object, describe, invalid_at
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.key_orders import KEYWORDS, check_key_order, check_key_orders_within
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
from tracehouse.errors import BakedArgument, MissingInput, StructureMismatch, UnexpectedInput
from tracehouse.tensors.tensor import Tensor


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)

ID_MAX = 1000  # characters, which each reply repeats
SEED_MAX = 2**63 - 1
_MEMBERS = {"id", "parameters", "inputs", "outputs", "args", "kwargs"}
_MODEL = rb'"model"\s*:\s*"(?P<model>[A-Za-z0-9._@:-]{1,500})"'
_MODEL_FIRST = re.compile(rb"\s{0,100}\{\s*" + _MODEL + rb"\s*[,}]")
_MODEL_LAST = re.compile(_MODEL + rb"\s*\}\s*\Z")
_MODEL_LAST_BYTES = 1000


@dataclass(frozen=True, slots=True)
class Expected:
    """What the contracts of all buckets expect: the inputs by name, and the fixed orders of keys by path.

    `method` is the contract in the first bucket, which has the arguments and outputs of all.
    """

    method: MethodContract
    inputs: Mapping[str, ExpectedInput]
    key_orders: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, contracts: Sequence[MethodContract]) -> "Expected":
        """`contracts` has the method's one contract, or its contract in each bucket."""
        orders = {path: keys for contract in contracts for path, keys in contract.key_orders.items()}
        return cls(contracts[0], expected_inputs(contracts), orders)


@dataclass(frozen=True, slots=True)
class InferenceBody:
    """What a body says. `tensors` stand in any order; `outputs` are the names to answer with, in that order.

    `seed` seeds the random numbers that are drawn for the answer.
    """

    tensors: list[Tensor]
    outputs: list[str]
    id: str | None = None
    seed: int | None = None


def parse(text: bytes, contracts: Sequence[MethodContract], *, model: str | None = None) -> InferenceBody:
    """Parse a body and read it; one that names a model has that in its member `model`.

    Raises MalformedJson, and what `read` raises.
    """
    body = parse_json(text)
    if model is not None:
        members = as_object(body, "")
        if members.get("model") != model:
            raise invalid_at("/model", f"the body begins or ends with the model {model!r}, and this is another one")
        body = {name: value for name, value in members.items() if name != "model"}
    return read(body, Expected.of(contracts))


def find_model(text: bytes) -> str | None:
    """Return the model that a body names first or last, which is seen without parsing it; None if it does not.

    Whether the body is JSON, and names this model, `parse` finds out.
    """
    found = _MODEL_FIRST.match(text) or _MODEL_LAST.search(text, max(0, len(text) - _MODEL_LAST_BYTES))
    return None if found is None else found["model"].decode("ascii")


def parse_model(text: bytes) -> str:
    """Return the model that a body names. Raises MalformedJson and InvalidRequest."""
    body = parse_json(text)
    model = body.get("model") if isinstance(body, dict) else None
    if not isinstance(model, str):
        raise invalid_at("/model", "name a model here")
    return model


def read(body: JsonValue, expected: Expected) -> InferenceBody:
    """Read any of the three forms.

    Raises InvalidRequest, InvalidTensor, or a ContractViolation that can be seen without looking at sizes.
    """
    given = as_members(body, _MEMBERS, "")
    parameters = as_object(given.get("parameters", {}), "/parameters")
    return InferenceBody(
        tensors=list(each_once(_read_tensors(given, expected.method, expected))),
        outputs=output_names(given.get("outputs"), expected.method),
        id=request_id(given.get("id")),
        seed=seed_of(parameters.get("seed")),
    )


def _read_tensors(body: Mapping[str, JsonValue], method: MethodContract, expected: Expected) -> Iterator[Tensor]:
    is_call = "args" in body or "kwargs" in body
    if is_call == ("inputs" in body):
        raise invalid_at("", "give either inputs, or args and kwargs")
    if is_call:
        args, kwargs = as_list(body.get("args", []), "/args"), as_object(body.get("kwargs", {}), "/kwargs")
        return _read_call(args, kwargs, method, expected)
    if isinstance(inputs := body["inputs"], dict):
        return _read_by_name(inputs, method, expected)
    return _read_protocol(as_list(inputs, "/inputs"), expected.inputs)


def _read_protocol(inputs: list[JsonValue], expected: Mapping[str, ExpectedInput]) -> Iterator[Tensor]:
    return (read_object(members, one) for _, members, one in protocol_inputs(inputs, expected))


def protocol_inputs(
    inputs: Iterable[JsonValue], expected: Mapping[str, ExpectedInput]
) -> Iterator[tuple[str, dict[str, JsonValue], ExpectedInput]]:
    """Yield each input of the protocol's form: its JSON pointer, its members, and what the contract says of it.

    Raises InvalidRequest and UnexpectedInput.
    """
    for index, given in enumerate(inputs):
        pointer = f"/inputs/{index}"
        members = as_members(given, TENSOR_MEMBERS, pointer)
        name = members.get("name")
        if not isinstance(name, str):
            raise invalid_at(f"{pointer}/name", "a tensor needs a name")
        if name not in expected:
            raise unknown_input(name, expected)
        yield pointer, members, expected[name]


def _read_by_name(inputs: Mapping[str, JsonValue], method: MethodContract, expected: Expected) -> Iterator[Tensor]:
    arguments = {argument.name: argument for argument in method.arguments}
    check_key_order(expected.key_orders, inputs, KEYWORDS)
    for name, value in inputs.items():
        if name in expected.inputs:
            yield read_tensor(value, expected.inputs[name])
        elif name in arguments:
            yield from _read_nested(value, arguments[name].structure, expected, name)
        else:
            raise unknown_input(name, {*expected.inputs, *arguments})


def _read_call(
    args: list[JsonValue],
    kwargs: Mapping[str, JsonValue],
    method: MethodContract,
    expected: Expected,
) -> Iterator[Tensor]:
    names = [argument.name for argument in method.arguments]
    if len(args) > len(names):
        raise UnexpectedInput(
            f"there are {len(names)} arguments, not {len(args)}", expected=len(names), actual=len(args), inputs=names
        )
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise unknown_input(name, names)
        if name in given:
            raise UnexpectedInput(f"argument {name!r} is in args and in kwargs", input=name, inputs=names)
        given[name] = value
    check_key_order(expected.key_orders, kwargs, KEYWORDS)
    for argument in method.arguments:
        if argument.name in given:
            yield from _read_nested(given[argument.name], argument.structure, expected, argument.name)


def _read_nested(value: JsonValue, structure: Structure, expected: Expected, path: str) -> Iterator[Tensor]:
    """Yield the tensors in `value`. The contract's structure limits the depth of the recursion, not the body."""
    match structure:
        case TensorLeaf():
            yield read_tensor(value, expected.inputs[structure.tensor])
        case BakedLeaf():
            if not means_same_value(value, structure.baked):
                raise BakedArgument(
                    f"{path!r} was {structure.baked!r} when the model was traced, and that is baked in",
                    input=path, expected=structure.baked, actual=describe(value),
                )  # fmt: skip
            check_key_orders_within(expected.key_orders, value, path)
        case FixedLeaf():
            if not means_same_value(value, structure.fixed):
                raise BakedArgument(
                    f"{path!r} was {structure.fixed!r} when the model was checked, and nothing else was tried",
                    input=path, expected=structure.fixed, actual=describe(value),
                )  # fmt: skip
            check_key_orders_within(expected.key_orders, value, path)
        case ListNode():
            yield from _read_items(value, structure.list, expected, path)
        case TupleNode():
            inner = value["tuple"] if isinstance(value, dict) and value.keys() == {"tuple"} else value
            yield from _read_items(inner, structure.tuple, expected, path)
        case DictNode():
            yield from _read_entries(value, structure.mapping, expected, path)


def _read_items(value: JsonValue, inner: Any, expected: Expected, path: str) -> Iterator[Tensor]:
    if not isinstance(value, list) or len(value) != len(inner):
        raise _structure_mismatch(path, f"a list of {len(inner)}", value)
    for index, (item, structure) in enumerate(zip(value, inner, strict=True)):
        yield from _read_nested(item, structure, expected, f"{path}.{index}")


def _read_entries(value: JsonValue, inner: Mapping[str, Structure], expected: Expected, path: str) -> Iterator[Tensor]:
    if not isinstance(value, dict) or not value.keys() <= inner.keys():
        raise _structure_mismatch(path, f"an object of {sorted(inner)}", value)
    check_key_order(expected.key_orders, value, path)
    for key, structure in inner.items():
        if key in value:
            yield from _read_nested(value[key], structure, expected, f"{path}.{key}")
        elif any(tensors_of(structure)):  # without tensors, the artifact has all of it baked in
            raise MissingInput(f"input {f'{path}.{key}'!r} is missing", input=f"{path}.{key}")


def each_once(tensors: Iterator[T]) -> Iterator[T]:
    seen = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise UnexpectedInput(f"input {tensor.name!r} was sent twice", input=tensor.name)
        seen.add(tensor.name)
        yield tensor


def output_names(value: JsonValue, method: MethodContract) -> list[str]:
    """Return the outputs to answer with, in their order. Raises InvalidRequest."""
    known = [spec.name for spec in method.outputs]
    if value is None:
        return known
    names, there = [], set(known)
    for index, given in enumerate(as_list(value, "/outputs")):
        name = as_members(given, {"name", "parameters"}, f"/outputs/{index}").get("name")
        if not isinstance(name, str) or name not in there:
            raise invalid_at(f"/outputs/{index}/name", f"there is no output {describe(name)}", outputs=known)
        names.append(name)
    return list(dict.fromkeys(names)) or known


def request_id(value: JsonValue) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= ID_MAX):
        return value
    raise invalid_at("/id", f"an id is a string of at most {ID_MAX} characters, not {describe(value)}")


def seed_of(value: JsonValue) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= SEED_MAX):
        return value
    raise invalid_at("/parameters/seed", f"a seed is a whole number from 0 to {SEED_MAX}, not {describe(value)}")


def unknown_input(name: str, known: Any) -> UnexpectedInput:
    return UnexpectedInput(f"there is no input {describe(name)}", input=name[:80], inputs=sorted(known))


def _structure_mismatch(path: str, expected: str, value: JsonValue) -> StructureMismatch:
    return StructureMismatch(
        f"{path!r} is {expected}, not {describe(value)}", input=path, expected=expected, actual=describe(value)
    )
