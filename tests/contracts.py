"""Contracts in short, for tests: shapes, and boxes of sizes as text."""

from typing import Any

from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.dims import shape_at
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.contract.structure import Argument, TensorLeaf
from tracehouse.tensors.tensor import Datatype

Shape = tuple[int | str, ...]


def span(text: str) -> Span:
    """`8`, `1..32` or `8..64..8`."""
    low, high, step = [*map(int, text.split("..")), None, None][:3]
    return Span(low=low, high=low if high is None else high, step=step or 1)


def regions(*boxes: dict[str, str]) -> list[Region]:
    return [
        Region(spans={symbol: [*map(span, texts.split())] for symbol, texts in box.items()}, basis="tested")
        for box in boxes
    ]


def method(shapes: dict[str, Shape], *boxes: dict[str, str], **changes: Any) -> MethodContract:
    """A method that takes these shapes, INT64, with the sizes of the boxes; the first box has the example."""
    first = {symbol: span(texts.split()[0]).low for symbol, texts in (boxes[0] if boxes else {}).items()}
    inputs = [
        InputSpec(
            name=name,
            datatype=changes.get("datatype", Datatype.INT64),
            shape=shape,
            example=shape_at(shape, first),
            values=changes.get("values"),
        )
        for name, shape in shapes.items()
    ]
    fields: dict[str, Any] = {
        "arguments": [Argument(name=name, structure=TensorLeaf(tensor=name)) for name in shapes],
        "inputs": inputs,
        "outputs": [OutputSpec(name="output", datatype=Datatype.FP32, shape=changes.get("output", (-1,)))],
        "returns": TensorLeaf(tensor="output"),
        "regions": regions(*boxes),
    }
    others = {name: value for name, value in changes.items() if name not in ("datatype", "values", "output")}
    return MethodContract(**{**fields, **others})


def contract(shapes: dict[str, Shape], *boxes: dict[str, str], is_open: bool = False, **changes: Any) -> Contract:
    return Contract(methods={"forward": method(shapes, *boxes, **changes)}, open=is_open)
