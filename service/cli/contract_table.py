"""A contract in a terminal: a table, and below it the sizes that its symbols may have."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from tracehouse.contract.dims import format_sizes
from tracehouse.contract.memory import Memory
from tracehouse.contract.regions import Region, describe_beyond, list_regions
from tracehouse.contract.size_coverage import SizeCoverage
from tracehouse.findings.comparison import Comparison, outcome_lines
from tracehouse.findings.layer_questions import question_of
from tracehouse.printable_text import printable_line


def contract_table(contract: dict[str, Any], bucket: Mapping[str, int] | None = None) -> Table:
    """Return the inputs and outputs of a contract in JSON; the title names the bucket that its artifact is for."""
    table = Table(
        title=f"Contract of the bucket {format_sizes(bucket)}" if bucket else "Contract", title_justify="left"
    )
    for heading in ("method", "", "name", "datatype", "shape"):
        table.add_column(heading, overflow="fold")
    for name, method in contract["methods"].items():
        for ranks in _by_ranks(method):
            for side in ("inputs", "outputs"):
                for spec in ranks[side]:
                    cells = (name, side[:-1], spec["name"], _datatypes(spec), _shape(spec["shape"]))
                    # As Text: a name may have brackets, which rich takes for markup.
                    table.add_row(*(Text(printable_line(cell)) for cell in cells))
    return table


def size_lines(contract: dict[str, Any]) -> Iterator[str]:
    """Yield lines for the regions of each method, for random draws, and for inputs with dims whose size is baked in."""
    for name, method in contract["methods"].items():
        for ranks in _by_ranks(method):
            which = name if ranks is method else f"{name}, {_shapes(ranks)}"
            yield from _region_lines(which, ranks)
        if method.get("stochastic"):
            yield f"stochastic: {name} draws random numbers; `parameters.seed` gives the same answer again"
        for spec in method["inputs"]:
            baked = [place for place, reason in spec["fixed"].items() if reason == "trace"]
            if baked:
                yield f"kept by the trace of {name}: the size of {spec['name']} in dim {', '.join(baked)}"


def _region_lines(which: str, ranks: dict[str, Any]) -> Iterator[str]:
    every = [Region.model_validate(region) for region in ranks["regions"]]
    regions, others = list_regions(every)
    yield from (f"sizes of {which}: {region} ({region.basis})" for region in regions)
    if others:
        yield f"sizes of {which}: {others}"
    if ranks.get("memory"):
        memory = Memory.model_validate(ranks["memory"])
        yield f"sizes of {which} beyond these: {describe_beyond(every)} (proven; a call needs {memory})"


def coverage_lines(check: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each method with sizes that the request wants: how many of them the contract accepts."""
    for one in check["coverage"]:
        yield f"coverage: {SizeCoverage.model_validate(one)}"


def compared_lines(check: dict[str, Any]) -> Iterator[str]:
    """Yield what a reader must know of comparisons that neither pass nor fail, if there are any."""
    for line in outcome_lines([Comparison.model_validate(one) for one in check["comparisons"]]):
        yield f"compared: {line}"


_WHY_CUT = "a limit of the check was reached; a larger budget may find out more: --budget deep"
_WHY_OPEN = "the check has no means to find this out, however much time it has"


def left_out_lines(check: dict[str, Any]) -> Iterator[str]:
    """Yield, for each layer of the check that did not do all, what it was to find out, what was not tried, and why."""
    for layer in check["layers"]:
        if layer["left_out"]:
            yield f"not checked to the end, of {layer['method']}: {question_of(layer['name'])}"
            yield from (f"  {what}" for what in layer["left_out"])
            yield f"  why: {_WHY_CUT if layer['is_cut'] else _WHY_OPEN}"
    memory = check.get("memory")
    if memory is not None and memory["left_out"]:
        yield "not tried, because there was not enough memory:"
        yield from (f"  {what}" for what in memory["left_out"])


def _datatypes(spec: dict[str, Any]) -> str:
    """Return the datatype, those that an input may have, or the input whose datatype an output has."""
    if spec.get("datatype_of") is not None:
        return f"as {spec['datatype_of']}"
    return " or ".join(spec.get("datatypes") or [spec["datatype"]])


def _by_ranks(method: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the contract for the ranks of the example, and then those for other ranks."""
    return [method, *method.get("other_ranks", [])]


def _shapes(ranks: dict[str, Any]) -> str:
    return printable_line(", ".join(f"{spec['name']} {_shape(spec['shape'])}" for spec in ranks["inputs"]))


def _shape(dims: list[int | str]) -> str:
    """Return the shape as `--input` takes it if all dims are numbers."""
    between = "x" if all(isinstance(dim, int) and dim >= 0 for dim in dims) else " x "
    return between.join("?" if dim == -1 else str(dim) for dim in dims) or "scalar"
