"""What a parent makes of a runner's answer to several requests that were joined."""

import struct

import pytest
from pydantic import JsonValue

from service.protocol.calls import MisfitAnswer, read_answers
from tracehouse.tensors.tensor import Datatype, unpack

EXPECTED = {"y": Datatype.FP32, "n": Datatype.INT8}
BODY = struct.pack("<6f3b", 1, 2, 3, 4, 5, 6, 7, 8, 9)


def header(*shapes: list[int]) -> dict[str, JsonValue]:
    kinds = zip(EXPECTED.items(), shapes, strict=True)
    return {"kind": "answers", "outputs": [[name, datatype.value, [*shape]] for (name, datatype), shape in kinds]}


def test_each_request_gets_its_rows() -> None:
    answers = read_answers(header([3, 2], [3]), BODY, EXPECTED, [1, 2])

    assert [[(one.name, one.shape, unpack(one.datatype, one.data)) for one in answer] for answer in answers] == [
        [("y", (1, 2), [1.0, 2.0]), ("n", (1,), [7])],
        [("y", (2, 2), [3.0, 4.0, 5.0, 6.0]), ("n", (2,), [8, 9])],
    ]


def test_an_answer_that_is_kept_keeps_no_other_requests_rows() -> None:
    body = bytearray(BODY)
    kept = read_answers(header([3, 2], [3]), body, EXPECTED, [1, 2])[0]
    body.clear()  # raises BufferError as long as something is a view into it

    assert [unpack(one.datatype, one.data) for one in kept] == [[1.0, 2.0], [7]]


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param(([2, 3], [3]), id="fewer rows"),
        pytest.param(([3, 2], [1, 3]), id="rows in another dim"),
        pytest.param(([6], [3]), id="more rows"),
        pytest.param(([3, 2], []), id="no dims"),
    ],
)
def test_an_answer_of_other_rows_is_nobodys(shapes: tuple[list[int], list[int]]) -> None:
    with pytest.raises(MisfitAnswer):
        read_answers(header(*shapes), BODY if shapes[1] else BODY[:25], EXPECTED, [1, 2])
