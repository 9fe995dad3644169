"""An inference request of the protocol, with tensors in its JSON, behind it, or both.

Source: the Open Inference Protocol's "inference request JSON object" and "binary tensor data extension". A body that is
one tensor alone has the length 0 for its JSON.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Self

from pydantic import JsonValue

from service.api.inference_json import Expected, each_once, output_names, protocol_inputs, request_id, seed_of
from service.api.input_tensor import ExpectedInput, only_input, read_object, read_spec
from service.api.json_members import as_list, as_members, as_object, describe, invalid_at
from service.api.json_numbers import read_with_numbers
from service.api.oip.metadata import method_of
from service.domain.errors import NotSupported
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.errors import InvalidTensor
from tracehouse.tensors.raw import as_booleans
from tracehouse.tensors.tensor import Datatype, Tensor

_MEMBERS = {"id", "parameters", "inputs", "outputs"}
# What the protocol's clients can ask for, and this service cannot do: an answer without it would be another one.
_UNSUPPORTED = {
    "sequence_id", "sequence_start", "sequence_end", "shared_memory_region", "shared_memory_offset",
    "shared_memory_byte_size", "classification",
}  # fmt: skip
# perf_analyzer sends the last one over gRPC with each request, though it is for streams alone.
_PARAMETERS = {
    "method", "seed", "timeout", "priority", "binary_data_output", "triton_enable_empty_final_response",
}  # fmt: skip
_METHOD_MAX = 200  # characters, as in a submission
_TIMEOUT_MAX_US = 10**15  # thirty years


@dataclass(frozen=True, slots=True)
class RequestParameters:
    """A request's parameters: the `method` to call, the seed, and the seconds within which an answer is wanted.

    `priority` and `triton_enable_empty_final_response` are taken too, and change nothing: requests of a model are
    answered in their order, and each with one reply.
    """

    method: str | None = None
    seed: int | None = None
    timeout_s: float | None = None
    binary_outputs: bool = False

    @classmethod
    def read(cls, value: JsonValue) -> Self:
        """Raises InvalidRequest and NotSupported."""
        given = as_object(value, "/parameters")
        if not given:
            return cls()
        _refuse_unsupported(given)
        asked = {name: each for name, each in given.items() if name not in _UNSUPPORTED}
        known = as_members(asked, _PARAMETERS, "/parameters")
        method = known.get("method")
        if not (method is None or (isinstance(method, str) and len(method) <= _METHOD_MAX)):
            raise invalid_at(
                "/parameters/method", f"a method is a name of at most {_METHOD_MAX} characters, not {describe(method)}"
            )
        return cls(
            method=method,
            seed=seed_of(known.get("seed")),
            timeout_s=_timeout_s(known.get("timeout")),
            binary_outputs=_flag(known.get("binary_data_output", False), "/parameters/binary_data_output"),
        )


# Returns the method that is asked for, if one is, and what is expected of its inputs. Raises MethodNotFound.
Expect = Callable[[str | None], tuple[str, Expected]]


def expect_by_contract(contracts: Sequence[Contract], asked: str | None) -> tuple[str, Expected]:
    """`contracts` has one, or one for each bucket. Raises MethodNotFound."""
    method = method_of(contracts, asked)
    return method, Expected.of([contract.method(method) for contract in contracts])


@dataclass(frozen=True, slots=True)
class BinaryInput:
    """An input whose bytes follow the JSON."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    byte_size: int

    def read(self, data: memoryview) -> Tensor:
        """Raises InvalidTensor."""
        needed = prod(self.shape) * self.datatype.item_bytes
        if self.byte_size != needed or len(data) != needed:
            there = "" if len(data) == self.byte_size else f", of which {len(data)} are there"
            raise InvalidTensor(
                f"input {self.name!r} of {self.datatype} {list(self.shape)} has {needed} bytes, and not "
                f"{self.byte_size}{there}",
                input=self.name, expected=needed, actual=self.byte_size,
            )  # fmt: skip
        return _tensor(self.name, self.datatype, self.shape, data)


@dataclass(frozen=True, slots=True)
class ProtocolRequest:
    """A request as its JSON says it. `outputs` has the names to answer with, in their order, and whether as bytes.

    `alone` is the model's one input, if the body is one tensor alone.
    """

    parameters: RequestParameters
    method: str
    outputs: Mapping[str, bool]
    inputs: Sequence[Tensor | BinaryInput] = ()
    alone: ExpectedInput | None = None
    id: str | None = None

    @classmethod
    def parse(cls, text: bytes, expect: Expect) -> Self:
        """Parse the JSON, empty if the body is one tensor alone.

        Raises MalformedJson, InvalidRequest, NotSupported, MethodNotFound, InvalidTensor, or a ContractViolation that
        can be seen without sizes.
        """
        if text:
            return read_with_numbers(text, partial(cls.read, expect=expect))
        asked = RequestParameters(binary_outputs=True)
        method, expected = expect(asked.method)
        outputs = _outputs(None, expected.method, is_binary=True)
        return cls(parameters=asked, method=method, outputs=outputs, alone=only_input(expected.inputs))

    @classmethod
    def read(cls, body: JsonValue, expect: Expect) -> Self:
        """Read parsed JSON. Raises what `parse` raises, but for MalformedJson."""
        members = as_members(body, _MEMBERS, "")
        if "inputs" not in members:
            raise invalid_at("/inputs", "the request needs inputs")
        asked = RequestParameters.read(members.get("parameters", {}))
        given = as_list(members["inputs"], "/inputs")
        method, expected = expect(asked.method)
        return cls(
            parameters=asked,
            method=method,
            outputs=_outputs(members.get("outputs"), expected.method, is_binary=asked.binary_outputs),
            inputs=[*each_once(_read_inputs(given, expected.inputs))],
            id=request_id(members.get("id")),
        )

    def read_tensors(self, data: memoryview) -> list[Tensor]:
        """Return the input tensors; `data` follows the JSON. Raises InvalidTensor."""
        if self.alone is not None:
            return [_read_alone(data, self.alone)]
        return [*self._read_tensors(data)]

    def read_each(self, data: Sequence[memoryview]) -> list[Tensor]:
        """Return the input tensors; `data` has the bytes of each. Raises InvalidTensor."""
        pairs = zip(self.inputs, data, strict=True)
        return [one if isinstance(one, Tensor) else one.read(each) for one, each in pairs]

    def _read_tensors(self, data: memoryview) -> Iterator[Tensor]:
        start = 0
        for one in self.inputs:
            if isinstance(one, Tensor):
                yield one
                continue
            yield one.read(data[start : start + one.byte_size])
            start += one.byte_size
        if start != len(data):
            raise InvalidTensor(
                f"{len(data)} bytes follow the JSON, and its `binary_data_size` add up to {start}",
                expected=start, actual=len(data),
            )  # fmt: skip


def _outputs(value: JsonValue, method: MethodContract, *, is_binary: bool) -> dict[str, bool]:
    names = output_names(value, method)
    asked = value if isinstance(value, list) else []
    said = [_binary_form(one, f"/outputs/{place}") for place, one in enumerate(asked)]
    forms = {name: form for name, form in said if form is not None}
    return {name: forms.get(name, is_binary) for name in names}


def _read_inputs(inputs: Sequence[JsonValue], expected: Mapping[str, ExpectedInput]) -> Iterator[Tensor | BinaryInput]:
    for pointer, members, one in protocol_inputs(inputs, expected):
        byte_size = _binary_size(members.get("parameters", {}), f"{pointer}/parameters")
        if byte_size is None:
            yield read_object(members, one)
        elif "data" in members:
            name = one.spec.name
            raise InvalidTensor(f"input {name!r} has data in the JSON and behind it", input=name)
        else:
            yield BinaryInput(one.spec.name, *read_spec(members, one), byte_size)


def _read_alone(data: memoryview, only: ExpectedInput) -> Tensor:
    """Read the one input of a model, whose bytes are all of the body. Raises InvalidTensor."""
    datatype = only.spec.datatype
    count, rest = divmod(len(data), datatype.item_bytes)
    dims = only.dims_of(count)
    shape = tuple(dim for dim in dims if dim is not None)
    is_doubtful = bool(only.others) or len(only.spec.accepted_datatypes) > 1
    if rest or is_doubtful or len(shape) < len(dims) or prod(shape) != count:
        raise InvalidTensor(
            f"{len(data)} bytes do not tell the shape of input {only.spec.name!r}, which is "
            f"{' or '.join(only.spec.accepted_datatypes)} {list(only.spec.shape)}",
            input=only.spec.name, actual=len(data), remedy="Send datatype and shape in JSON before the bytes.",
        )  # fmt: skip
    return _tensor(only.spec.name, datatype, shape, data)


def _tensor(name: str, datatype: Datatype, shape: tuple[int, ...], data: memoryview) -> Tensor:
    return Tensor(name, datatype, shape, as_booleans(data) if datatype is Datatype.BOOL else data)


def _binary_size(value: JsonValue, pointer: str) -> int | None:
    """Return an input's `binary_data_size`; None if its data stands in the JSON. Raises InvalidRequest."""
    parameters = as_object(value, pointer)
    _refuse_unsupported(parameters)
    if "binary_data_size" not in parameters:
        return None
    size = parameters["binary_data_size"]
    if type(size) is int and size >= 0:
        return size
    raise invalid_at(f"{pointer}/binary_data_size", f"this is a number of bytes, not {describe(size)}")


def _binary_form(value: JsonValue, pointer: str) -> tuple[str, bool | None]:
    """Return an output's name, and whether it is wanted as bytes; None if it does not say. Raises InvalidRequest."""
    members = as_object(value, pointer)
    parameters = as_object(members.get("parameters", {}), f"{pointer}/parameters")
    _refuse_unsupported(parameters)
    wanted = parameters.get("binary_data")
    return str(members.get("name")), None if wanted is None else _flag(wanted, f"{pointer}/parameters/binary_data")


def _refuse_unsupported(parameters: Mapping[str, JsonValue]) -> None:
    for name, value in parameters.items():
        # An official client sends `sequence_id: 0` where there is no sequence.
        if name in _UNSUPPORTED and value not in (0, False, ""):
            raise NotSupported(f"this service has no {name}", parameter=name)


def _flag(value: JsonValue, pointer: str) -> bool:
    if isinstance(value, bool):
        return value
    raise invalid_at(pointer, f"this is true or false, not {describe(value)}")


def _timeout_s(value: JsonValue) -> float | None:
    """Return the protocol's timeout, in microseconds, as seconds; None if there is none. 0 is none, as in Triton."""
    if value is None or value == 0:
        return None
    if type(value) is int and 0 < value <= _TIMEOUT_MAX_US:
        return value / 1e6
    raise invalid_at("/parameters/timeout", f"a timeout is a whole number of microseconds, not {describe(value)}")
