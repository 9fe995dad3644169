"""Closing: symbols that are left with no other size than the example's become numbers, each with the reason."""

from collections.abc import Collection, Mapping

from tracehouse.contract.dims import Linear, SymbolicDim, SymbolicShape, parse_dim, symbols_of
from tracehouse.contract.input_spec import Reason
from tracehouse.contract.regions import Region

# Of a dim that is closed by several symbols.
_FIRST: tuple[Reason, ...] = ("trace", "untried", "model")


def fix_shape(shape: SymbolicShape, sizes: Mapping[str, int]) -> SymbolicShape:
    """With these sizes in the place of their symbols."""
    return tuple(_closed_dim(dim, sizes) for dim in shape)


def fix_region(region: Region, closed: Collection[str]) -> Region:
    """Without these symbols."""
    spans = {symbol: spans for symbol, spans in region.spans.items() if symbol not in closed}
    return Region(spans=spans, basis=region.basis)


def collect_fixed_dims(
    shapes: Mapping[str, SymbolicShape], fixed: Mapping[str, Mapping[str, Reason]], closed: Mapping[str, Reason]
) -> dict[str, dict[str, Reason]]:
    """`fixed`, and of the dims that are numbers without these symbols, by leaf and place, why each of them is one."""
    found = {name: dict(reasons) for name, reasons in fixed.items()}
    for name, shape in shapes.items():
        for place, dim in enumerate(shape):
            symbols = symbols_of([dim])
            if symbols and symbols <= closed.keys():
                reasons = {closed[symbol] for symbol in symbols}
                found.setdefault(name, {})[str(place)] = next(reason for reason in _FIRST if reason in reasons)
    return found


def _closed_dim(dim: SymbolicDim, sizes: Mapping[str, int]) -> SymbolicDim:
    if isinstance(dim, int):
        return dim
    whole = parse_dim(dim)
    left = tuple((symbol, times) for symbol, times in whole.terms if symbol not in sizes)
    plus = whole.plus + sum(times * sizes[symbol] for symbol, times in whole.terms if symbol in sizes)
    return str(Linear(left, plus)) if left else plus
