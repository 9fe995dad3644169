"""A body that comes again with other values, and what is none."""

import json
import struct
from typing import Any

import pytest

from service.api.repeated_body import LastBody, RepeatedBody
from tracehouse.errors import InvalidTensor
from tracehouse.tensors.tensor import Datatype, Tensor, pack, unpack

TENSOR = Tensor("x", Datatype.FP32, (1, 2), struct.pack("<2f", 1, 2))
BODY = b'{"id": "7", "inputs": [{"name": "x", "data": [%b], "shape": [1, 2]}], "outputs": []}'


def body(*items: Any, **members: Any) -> bytes:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [*items], **members}
    return json.dumps({"inputs": [tensor]}).encode()


def remembered(sent: bytes) -> RepeatedBody:
    found = RepeatedBody.of_json(sent, TENSOR)
    assert found is not None
    return found


@pytest.mark.parametrize("items", ["3.5, -4", "3.5,-4", " 3.5 ,\n-4 ", "35e-1,-4.0", '3.5,"NaN"', '"-Infinity",0'])
def test_only_the_values_of_a_repeated_body_are_read(items: str) -> None:
    found = remembered(BODY % b"1, 2").read(BODY % items.encode())

    assert found is not None
    assert (found.name, found.datatype, found.shape) == ("x", Datatype.FP32, (1, 2))
    assert found.data == pack(Datatype.FP32, (1, 2), json.loads(f"[{items}]"))


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(body(1.0, 2.0).replace(b"FP32", b"FP64"), id="another datatype"),
        pytest.param(body(1.0, 2.0).replace(b"[1, 2]", b"[2, 1]"), id="another shape"),
        pytest.param(body(1.0, 2.0) + b" ", id="a space behind it"),
        pytest.param(body(1.0, 2.0)[:-3], id="less"),
        pytest.param(body([1.0, 2.0]), id="nested lists"),
        pytest.param(body(1.0, {"a": 2.0}), id="an object"),
        pytest.param(
            body(1.0, 2.0).replace(b"1.0,", b'1.0], "name": ["y",'), id="a list that ends before, and another"
        ),
        pytest.param(body(1.0, 2.0).replace(b"2.0", b"2.0,"), id="no JSON"),
        pytest.param(body(1.0, 2.0).replace(b"2.0", b"NaN"), id="a number that JSON has not"),
        pytest.param(body(1.0, 2.0).replace(b"2.0", b"02"), id="a number that begins with 0"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_any_other_body_is_read_anew(sent: bytes) -> None:
    assert remembered(body(1.0, 2.0)).read(sent) is None


@pytest.mark.parametrize("items", [(1.0,), (1.0, 2.0, 3.0), (1.0, True), (1.0, None), (1.0, "two"), (1.0, 1e39), ()])
def test_values_that_do_not_fit_are_refused(items: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidTensor):
        remembered(body(1.0, 2.0)).read(body(*items))


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(body([1.0, 2.0]), id="nested lists"),
        pytest.param(body(1.0, 2.0).replace(b', "shape": [1, 2]', b""), id="a shape that follows from the values"),
        pytest.param(body(1.0, 2.0, name="x" * 2048), id="much beside the values"),
        pytest.param(b'{"inputs": {"data": [1.0, 2.0]}}', id="an input of this name"),
        pytest.param(b'{"inputs": {"x": [1.0, 2.0]}}', id="inputs by name"),
        pytest.param(b'{"args": [{"data": [1.0, 2.0], "shape": [1, 2]}]}', id="a call"),
        pytest.param(b'{"inputs": [{"data": [1.0], "shape": [1]}, {"data": [1.0], "shape": [1]}]}', id="two tensors"),
        pytest.param(b'{"id": "\\"data\\": [1]", "inputs": [{"data" :  1.0, "shape": []}]}', id="no list"),
    ],
)
def test_a_body_that_is_not_remembered(sent: bytes) -> None:
    assert RepeatedBody.of_json(sent, TENSOR) is None


def test_the_list_is_found_behind_a_text_that_looks_like_it() -> None:
    sent = b'{"id": "\\"data\\": [1]", "inputs": [{"data" :\n[1.0, 2.0], "shape": [1, 2]}]}'

    found = remembered(sent).read(sent.replace(b"2.0", b"3.0"))
    assert found is not None
    assert unpack(found.datatype, found.data) == [1.0, 3.0]


def test_of_bytes_behind_the_json_there_must_be_as_many() -> None:
    head = b'{"inputs": []}'
    found = RepeatedBody.of_binary(head, TENSOR)
    assert found is not None

    read = found.read(head + b"87654321")
    assert read is not None
    assert bytes(read.data) == b"87654321"
    assert [found.read(head + bytes(count)) for count in (0, 7, 9)] == [None] * 3
    assert found.read(head.replace(b"inputs", b"output") + bytes(8)) is None


def test_the_bytes_of_booleans_are_looked_at_each_time() -> None:
    assert RepeatedBody.of_binary(b"{}", Tensor("x", Datatype.BOOL, (2,), b"\x01\x02")) is None


def test_bodies_that_are_never_repeated_are_soon_not_remembered_any_more() -> None:
    last: LastBody[str] = LastBody()
    for _ in range(3):
        last.remember("asked", remembered(body(1.0, 2.0)))
    assert last.may_be_repeated
    assert last.read(body(3.0, 4.0)) is not None
    for _ in range(4):
        last.remember("asked", None)

    assert last.read(body(3.0, 4.0)) is None
    assert not last.may_be_repeated
