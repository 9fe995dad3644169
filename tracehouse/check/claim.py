"""The claim: which sizes the artifact is right for, made of what was proven and of what was tried."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracehouse.check.size_groups import Groups
from tracehouse.contract.contract import Batch, MethodClaim
from tracehouse.contract.input_spec import Reason, ValueRange
from tracehouse.contract.regions import REGIONS_MAX, Region
from tracehouse.differential import size_samples
from tracehouse.differential.fixed_dims import collect_fixed_dims, fix_region, fix_shape


@dataclass(frozen=True)
class Tried:
    """Sizes of all symbols on which eager answered: whether the artifact agreed."""

    sizes: Mapping[str, int]
    agrees: bool


def voided(proven: Iterable[Region], tried: Sequence[Tried]) -> list[tuple[Region, Tried]]:
    """The proven regions in which a call has differed all the same, and the call."""
    differing = [one for one in tried if not one.agrees]
    found = ((region, next((one for one in differing if region.contains(one.sizes)), None)) for region in proven)
    return [(region, one) for region, one in found if one is not None]


def claim(
    groups: Groups,
    tried: Sequence[Tried],
    proven: Sequence[Region],
    *,
    values: Mapping[str, ValueRange] | None = None,
    batch: Batch | None = None,
) -> MethodClaim:
    """Of the proven regions those that no call has contradicted, and beside them the very sizes that were tried."""
    contradicted = [region for region, _ in voided(proven, tried)]
    held = [region for region in proven if region not in contradicted]
    agreed = [one.sizes for one in tried if one.agrees]
    closed: dict[str, Reason] = {
        symbol: _reason(symbol, groups, tried)
        for symbol in groups.symbols
        if not _is_open(symbol, groups, held, agreed)
    }
    left = [symbol for symbol in groups.symbols if symbol not in closed]
    regions = [fix_region(region, closed) for region in held if _has_example(region, groups, closed)]
    own = {symbol: groups.example[symbol] for symbol in closed}
    as_own = [sizes for sizes in agreed if own.items() <= sizes.items()]
    beside = [{symbol: sizes[symbol] for symbol in left} for sizes in as_own] if left else []
    regions += size_samples.tested_regions(
        [sizes for sizes in beside if not any(region.contains(sizes) for region in regions)]
    )
    return MethodClaim(
        shapes={name: fix_shape(shape, own) for name, shape in groups.shapes.items()},
        fixed=collect_fixed_dims(groups.shapes, groups.fixed, closed),
        values=dict(values or {}),
        regions=regions[:REGIONS_MAX],
        batch=batch if batch is not None and batch.symbol in left else None,
    )


def _is_open(symbol: str, groups: Groups, proven: Iterable[Region], agreed: Iterable[Mapping[str, int]]) -> bool:
    """Whether another size than the example's came out right."""
    example = groups.example[symbol]
    if any(sizes[symbol] != example for sizes in agreed):
        return True
    spans = [span for region in proven for span in region.spans[symbol]]
    return any((span.low, span.high) != (example, example) for span in spans)


def _reason(symbol: str, groups: Groups, tried: Iterable[Tried]) -> Reason:
    if any(not one.agrees and one.sizes[symbol] != groups.example[symbol] for one in tried):
        return "trace"
    return "model" if symbol in groups.refused else "untried"


def _has_example(region: Region, groups: Groups, closed: Mapping[str, Reason]) -> bool:
    return all(any(groups.example[symbol] in span for span in region.spans[symbol]) for symbol in closed)
