"""A contract in a terminal: a table, and below it the sizes that its symbols may have."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from service.sandbox.log_tail import printable
from tracehouse.contract.dims import format_sizes
from tracehouse.contract.regions import Region


def table_of(contract: dict[str, Any], bucket: Mapping[str, int] | None = None) -> Table:
    """Of the contract as JSON has it; of an artifact that is a bucket, with its sizes."""
    table = Table(
        title=f"Contract of the bucket {format_sizes(bucket)}" if bucket else "Contract", title_justify="left"
    )
    for heading in ("method", "", "name", "datatype", "shape"):
        table.add_column(heading, overflow="fold")
    for name, method in contract["methods"].items():
        for way in ("inputs", "outputs"):
            for spec in method[way]:
                cells = (name, way[:-1], spec["name"], spec["datatype"], _shape(spec["shape"]))
                table.add_row(*(Text(printable(cell)) for cell in cells))  # a name in brackets is no markup
    return table


def sizes_of(contract: dict[str, Any]) -> Iterator[str]:
    """One line for each region of each method, and for each dim that the trace keeps."""
    for name, method in contract["methods"].items():
        for told in method["regions"]:
            if told["spans"]:
                yield f"sizes of {name}: {Region.model_validate(told)} ({told['basis']})"
        for spec in method["inputs"]:
            baked = [place for place, reason in spec["fixed"].items() if reason == "trace"]
            if baked:
                yield f"kept by the trace of {name}: the size of {spec['name']} in dim {', '.join(baked)}"


def left_out_of(check: dict[str, Any]) -> Iterator[str]:
    """One line for each layer of the check that did not do all: why a size is not proven, and what the budget cut."""
    for layer in check["layers"]:
        if layer["left_out"]:
            yield f"left out of the check by {layer['name']} of {layer['method']}: {'; '.join(layer['left_out'])}"


def _shape(dims: list[int | str]) -> str:
    """As `--input` takes it, where all are numbers."""
    between = "x" if all(isinstance(dim, int) and dim >= 0 for dim in dims) else " x "
    return between.join("?" if dim == -1 else str(dim) for dim in dims) or "scalar"
