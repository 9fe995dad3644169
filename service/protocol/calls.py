"""Calls: the messages of inference. A runner gets thousands of them a second, so no pydantic reads them.

The headers are objects of lists: a tensor is `[name, datatype, shape]`. A parent believes nothing that an answer says
before `read_answer` or `read_answers` has compared it with what was asked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from pydantic import JsonValue

from tracehouse.tensors.tensor import BY_NAME, Datatype, Tensor

CALL = "call"
ANSWER = "answer"
ANSWERS = "answers"  # to all requests that were joined

Header = dict[str, JsonValue]
Buffer = bytes | bytearray | memoryview

_ANSWER_MEMBERS = {"kind", "outputs"}
# As in `tracehouse.tensors.tensor.Shape`.
_DIMS_MAX = 32
_DIM_MAX = 2**48


class MisfitAnswer(Exception):
    """An answer that does not fit what was asked."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a method; the frame's body is the inputs' bytes, one after the other.

    Of a call with `rows`, the inputs are those of several requests, joined along their first dim: each has so many
    rows. One frame answers all, with outputs that are joined in the same way, or each has a frame of its own, in their
    order. With `seed`, torch's generators are seeded before.

    With `row_counts`, the artifact is called with one of these numbers of rows, the smallest that is enough: what is
    missing is filled up with copies of the first row.
    """

    method: str
    inputs: list[Tensor]
    answer_max_bytes: int
    seed: int | None = None
    rows: list[int] | None = None
    row_counts: Sequence[int] = ()

    def header(self) -> Header:
        """Return the header of its frame."""
        header: Header = {
            "kind": CALL,
            "method": self.method,
            "inputs": [[one.name, one.datatype.value, list(one.shape)] for one in self.inputs],
            "answer_max_bytes": self.answer_max_bytes,
        }
        if self.seed is not None:
            header["seed"] = self.seed
        if self.rows is not None:
            header["rows"] = [*self.rows]
        if self.row_counts:
            header["row_counts"] = [*self.row_counts]
        return header

    @classmethod
    def read(cls, header: Header, body: Buffer) -> "Call":
        """Read a parent's frame, which is trusted."""
        given: dict[str, Any] = dict(header)
        return cls(
            method=given["method"],
            inputs=_split(given["inputs"], body),
            answer_max_bytes=given["answer_max_bytes"],
            seed=given.get("seed"),
            rows=given.get("rows"),
            row_counts=given.get("row_counts", ()),
        )


def answer_header(outputs: Sequence[Tensor], kind: str = ANSWER) -> Header:
    """Return the header of an answer; the frame's body is the outputs' bytes, one after the other."""
    return {"kind": kind, "outputs": [[one.name, one.datatype.value, list(one.shape)] for one in outputs]}


def read_answer(header: Header, body: Buffer, expected: Mapping[str, Datatype]) -> list[Tensor]:
    """Return the outputs, which must have the names and datatypes that are expected, in their order.

    Raises MisfitAnswer.
    """
    outputs = header.get("outputs")
    if header.keys() != _ANSWER_MEMBERS or not isinstance(outputs, list) or len(outputs) != len(expected):
        raise MisfitAnswer("it has other outputs or members")
    byte_size = 0
    for given, (name, datatype) in zip(outputs, expected.items(), strict=True):
        if not isinstance(given, list) or len(given) != 3 or given[0] != name or given[1] != datatype.value:
            raise MisfitAnswer(f"it has another output in the place of {name[:80]!r}")
        byte_size += _elements(given[2]) * datatype.item_bytes
    if byte_size != len(body):
        raise MisfitAnswer(f"its outputs have {byte_size} bytes, and {len(body)} came")
    return _split(outputs, body)  # type: ignore[arg-type] # each was looked at


def read_answers(
    header: Header, body: Buffer, expected: Mapping[str, Datatype], rows: Sequence[int]
) -> list[list[Tensor]]:
    """Return the outputs of each request of those that were joined, which have so many rows. Raises MisfitAnswer.

    Each has a copy of its rows: one client that reads slowly must not keep the bytes of all others.
    """
    outputs = read_answer(header, body, expected)
    if not all(one.shape and one.shape[0] == sum(rows) for one in outputs):
        raise MisfitAnswer(f"not all of its outputs have {sum(rows)} rows")
    return [*split_rows([Tensor(one.name, one.datatype, one.shape, bytes(one.data)) for one in outputs], rows)]


def split_rows(joined: Sequence[Tensor], rows: Sequence[int]) -> Iterator[list[Tensor]]:
    """Yield the tensors of each of the requests that were joined: their rows follow one another."""
    row_bytes = [len(one.data) // one.shape[0] for one in joined]
    start = 0
    for count in rows:
        end = start + count
        yield [
            Tensor(one.name, one.datatype, (count, *one.shape[1:]), one.data[start * size : end * size])
            for one, size in zip(joined, row_bytes, strict=True)
        ]
        start = end


def _elements(shape: JsonValue) -> int:
    """Return the number of a foreign shape's elements. Raises MisfitAnswer."""
    if not isinstance(shape, list) or len(shape) > _DIMS_MAX:
        raise MisfitAnswer("an output has no shape, or one of too many dims")
    if not all(type(dim) is int and 0 <= dim <= _DIM_MAX for dim in shape):
        raise MisfitAnswer("a dim of an output is no size")
    return prod(shape)  # type: ignore[arg-type] # each is an int


def _split(specs: list[list[Any]], body: Buffer) -> list[Tensor]:
    """Return the tensors whose bytes stand in the body one after the other; their data are views into it."""
    tensors, start, view = [], 0, memoryview(body)
    for name, kind, shape in specs:
        datatype = BY_NAME[kind]
        end = start + prod(shape) * datatype.item_bytes
        tensors.append(Tensor(name, datatype, tuple(shape), view[start:end]))
        start = end
    return tensors
