"""Fixed dims: if only the example's size is left of a symbol, the symbol becomes that number, with the reason."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from tracehouse.contract.dims import SymbolicDim, SymbolicShape, parse_dim, symbols_of
from tracehouse.contract.input_spec import Reason
from tracehouse.contract.regions import Region

# If several symbols of a dim are fixed for different reasons, the first of these counts.
_FIRST: tuple[Reason, ...] = ("trace", "untried", "model")


def fix_shape(shape: SymbolicShape, sizes: Mapping[str, int]) -> SymbolicShape:
    """Return the shape with each of these symbols replaced by its size."""
    return tuple(_fix_dim(dim, sizes) for dim in shape)


def fix_region(region: Region, fixing: Collection[str]) -> Region:
    """Return the region without these symbols."""
    spans = {symbol: spans for symbol, spans in region.spans.items() if symbol not in fixing}
    beyond = {symbol: high for symbol, high in region.beyond.items() if symbol not in fixing}
    return Region(spans=spans, basis=region.basis, beyond=beyond)


def collect_fixed_dims(
    shapes: Mapping[str, SymbolicShape], fixed: Mapping[str, Mapping[str, Reason]], fixing: Mapping[str, Reason]
) -> dict[str, dict[str, Reason]]:
    """Return the reason for each fixed dim, by the leaf's name and the dim's index as text.

    A dim is fixed if it is in `fixed`, or if `fixing` has all of its symbols.
    """
    all_fixed = {name: dict(reasons) for name, reasons in fixed.items()}
    for name, shape in shapes.items():
        for place, dim in enumerate(shape):
            symbols = symbols_of([dim])
            if symbols and symbols <= fixing.keys():
                reasons = {fixing[symbol] for symbol in symbols}
                all_fixed.setdefault(name, {})[str(place)] = next(reason for reason in _FIRST if reason in reasons)
    return all_fixed


def _fix_dim(dim: SymbolicDim, sizes: Mapping[str, int]) -> SymbolicDim:
    if isinstance(dim, int):
        return dim
    whole = parse_dim(dim)
    left = tuple((symbol, times) for symbol, times in whole.terms if symbol not in sizes)
    plus = whole.plus + sum(times * sizes[symbol] for symbol, times in whole.terms if symbol in sizes)
    return str(replace(whole, terms=left, plus=plus)) if left else whole.at(sizes)
