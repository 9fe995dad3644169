"""Printouts in a file: read one at a time, and of one that was made up no more than it takes to refuse it."""

from io import BytesIO
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from tracehouse.artifact.manifest import GraphNode, Printout
from tracehouse.artifact.printouts import INDEX_MAX_BYTES, INDEX_MAX_ENTRIES, PRINTOUT_MAX_BYTES, Printouts, write
from tracehouse.errors import PrintoutNotFound, PrintoutsUnreadable

NODE = GraphNode(operator="aten::relu", inputs=["x"], outputs=["y"], types=["Float(1)"])
NAMES = {"kind": "graph", "method": "forward", "submodule": ""}


def printout(submodule: str = "", text: str = "graph", nodes: list[GraphNode] | None = None) -> Printout:
    return Printout(kind="graph", method="forward", submodule=submodule, text=text, nodes=nodes or [])


def opened(data: bytes) -> Printouts:
    return Printouts(BytesIO(data), "sha256:of it")


class Counted(BytesIO):
    """A file that knows how many bytes of it were read."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


def test_each_one_is_read_as_it_was_written() -> None:
    written = [printout(submodule=name, text=f"graph of {name}\n\u2192", nodes=[NODE]) for name in ("", "a", "a.b")]

    shown = opened(write(written))

    assert [shown.read(each.kind, each.method, each.submodule) for each in shown.entries] == written


def test_what_is_not_there_is_not_found() -> None:
    with pytest.raises(PrintoutNotFound) as raised:
        opened(write([printout(submodule="a")])).read("graph", "forward", "b")

    assert raised.value.facts["submodules"] == ["a"]


def test_of_many_only_the_one_that_is_asked_for_is_read() -> None:
    file = Counted(write([printout(submodule=name, text="x" * 100_000) for name in "abcdef"]))

    Printouts(file, "sha256:of it").read("graph", "forward", "e")

    assert file.taken < 101_000


def test_more_than_the_index_has_room_for_are_left_out() -> None:
    many = opened(write(printout(submodule=str(number)) for number in range(INDEX_MAX_ENTRIES + 1)))
    long = opened(write([printout(), printout(submodule="x" * INDEX_MAX_BYTES), printout(submodule="after")]))

    assert len(many.entries) > INDEX_MAX_BYTES // 100
    assert many.read("graph", "forward", many.entries[-1].submodule).text == "graph"
    assert [entry.submodule for entry in long.entries] == [""]


def test_the_largest_one_that_may_be_written_can_be_read() -> None:
    node = GraphNode(operator="", inputs=[], outputs=[], types=[])
    count = PRINTOUT_MAX_BYTES // (len(node.model_dump_json()) + 1) - 2
    brackets = printout(text="[" * 300_000)

    assert len(opened(write([printout(nodes=[node] * count)])).read("graph", "forward", "").nodes) == count
    assert opened(write([brackets])).read("graph", "forward", "") == brackets


@pytest.mark.parametrize(
    "forged",
    [
        {**NAMES, "text": "", "nodes": [{}] * 100_000},
        {**NAMES, "text": "", "nodes": [1] * 1_000_000},
        {**NAMES, "text": "", "inputs": [1] * 1_000_000},
        {**NAMES, "text": "", "nodes": [{**NODE.model_dump(), "types": [1] * 1_000_000}]},
        {**NAMES, "text": "", **{str(number): 1 for number in range(300_000)}},
        {**NAMES, "text": "", "nodes": [{str(number): 1 for number in range(300_000)}]},
    ],
    ids=["nodes of nothing", "nodes that are none", "inputs", "types", "members", "members of a node"],
)
def test_of_many_mistakes_few_are_kept(forged: Any) -> None:
    body = orjson.dumps(forged)
    shown = opened(orjson.dumps([{**NAMES, "byte_size": len(body)}]) + b"\n" + body)

    with pytest.raises(PrintoutsUnreadable) as raised:
        shown.read("graph", "forward", "")

    cause = raised.value.__cause__
    assert not isinstance(cause, ValidationError) or cause.error_count() < 20


@pytest.mark.parametrize(
    "forged",
    [
        {},
        7,
        [],
        {**NAMES, "byte_size": 10, "more": 1},
        {**NAMES, "byte_size": 10, "kind": "picture"},
        {**NAMES, "byte_size": 10, "kind": ["graph"]},
        {**NAMES, "byte_size": 10, "method": None},
        {**NAMES, "byte_size": 10, "submodule": 1},
        {**NAMES, "byte_size": -1},
        {**NAMES, "byte_size": PRINTOUT_MAX_BYTES + 1},
        {**NAMES, "byte_size": 1.0},
        {**NAMES, "byte_size": True},
    ],
)
def test_an_index_with_an_entry_that_is_none_is_refused(forged: Any) -> None:
    written = write([printout()])
    index, body = written.split(b"\n", 1)

    assert opened(written).entries
    with pytest.raises(PrintoutsUnreadable):
        opened(orjson.dumps([*orjson.loads(index), forged]) + b"\n" + body)


def test_nodes_beyond_what_a_model_can_have_are_not_made() -> None:
    nodes = [{"operator": "", "inputs": [], "outputs": [], "types": []}] * 60_000
    body = orjson.dumps({**NAMES, "text": "", "nodes": nodes})
    shown = opened(orjson.dumps([{**NAMES, "byte_size": len(body)}]) + b"\n" + body)

    with pytest.raises(PrintoutsUnreadable):
        shown.read("graph", "forward", "")


def test_of_a_list_from_before_there_was_an_index_no_more_than_one_printout_may_have_is_read() -> None:
    half = {**NAMES, "text": "x" * (PRINTOUT_MAX_BYTES // 2)}
    few, many = orjson.dumps([half]), orjson.dumps([half, half])

    assert len(opened(few).entries) == 1
    with pytest.raises(PrintoutsUnreadable):
        opened(many)
