"""A method's contract in lines, for whoever reads it as text or on a small page."""

from collections.abc import Iterator

from tracehouse.contract.contract import MethodContract
from tracehouse.contract.dims import format_shape
from tracehouse.contract.key_orders import KeyOrder
from tracehouse.contract.regions import describe_beyond, list_regions
from tracehouse.report.finding_text import INDENT


def contract_lines(method: MethodContract) -> Iterator[str]:
    """Yield the inputs with their sizes, what else a request must know, and the outputs."""
    yield from _input_lines(method)
    if method.stochastic:
        yield "stochastic: random numbers are drawn, and the same seed gives the same answer"
    for path, keys in method.key_orders.items():
        yield f"{KeyOrder(path=path, keys=keys).subject} in this order: {', '.join(keys)}"
    if method.devices:
        more = f" and {len(method.devices) - 1} more" if len(method.devices) > 1 else ""
        yield f"always on one device: {method.devices[0]}{more}"
    yield from _output_lines(method)
    for other in method.by_ranks[1:]:
        yield "also in other ranks"
        yield from (INDENT + line for line in (*_input_lines(other), *_output_lines(other)))


def _input_lines(method: MethodContract) -> Iterator[str]:
    for spec in method.inputs:
        yield f"{spec.name}: {' or '.join(spec.accepted_datatypes)} {format_shape(spec.shape)}"
    regions, others = list_regions(method.regions)
    yield from (f"for {region} ({region.basis})" for region in regions)
    if others:
        yield others
    if method.memory is not None:
        yield f"and beyond, if memory allows: {describe_beyond(method.regions)} (proven; a call needs {method.memory})"


def _output_lines(method: MethodContract) -> Iterator[str]:
    for output in method.outputs:
        yield f"→ {output.name}: {output.datatype_text} {format_shape(output.shape_in_words)}"
