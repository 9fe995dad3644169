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
from functools import partial
from typing import Any, Protocol, TypeVar

from pydantic import JsonValue

from service.api.http.body import parse_json
from service.api.input_tensor import TENSOR_MEMBERS, ExpectedInput, expected_inputs, read_object, read_tensor
from service.api.json_members import as_list, as_members, as_object, describe, invalid_at
from service.api.json_numbers import read_with_numbers
from tracehouse.contract.call_walk import CallWalk
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.key_orders import KEYWORDS, check_key_order
from tracehouse.errors import UnexpectedInput
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
    expected = Expected.of(contracts)
    if model is None:
        return read_with_numbers(text, partial(read, expected=expected))
    return read_with_numbers(text, partial(_read_named, expected=expected, model=model))


def _read_named(body: JsonValue, expected: Expected, model: str) -> InferenceBody:
    members = as_object(body, "")
    if members.get("model") != model:
        raise invalid_at("/model", f"the body begins or ends with the model {model!r}, and this is another one")
    return read({name: value for name, value in members.items() if name != "model"}, expected)


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
        return _walk(expected).call(args, kwargs)
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
            yield from _walk(expected).within(value, arguments[name].structure, name)
        else:
            raise unknown_input(name, {*expected.inputs, *arguments})


class _JsonValues:
    """How a body shows what its values are. A tuple may be a list, or as in a submission."""

    a_list = "a list"
    a_dict = "an object"

    def items_of(self, value: JsonValue, *, is_tuple: bool) -> Sequence[JsonValue] | None:
        if is_tuple and isinstance(value, dict) and value.keys() == {"tuple"}:
            value = value["tuple"]
        return value if isinstance(value, list) else None

    def entries_of(self, value: JsonValue) -> Mapping[str, JsonValue] | None:
        return value if isinstance(value, dict) else None

    def as_json(self, value: JsonValue) -> JsonValue:
        return value

    def describe(self, value: JsonValue) -> str:
        return describe(value)


def _walk(expected: Expected) -> CallWalk[Tensor]:
    def read(value: JsonValue, name: str) -> Tensor:
        return read_tensor(value, expected.inputs[name])

    return CallWalk(expected.method, expected.key_orders, _JsonValues(), read)


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
