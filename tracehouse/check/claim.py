"""The claim: the sizes for which the artifact is right, from what was proven and from the calls that were compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracehouse.check.size_groups import Groups
from tracehouse.contract.contract import Batch, MethodClaim
from tracehouse.contract.input_spec import Reason, ValueRange
from tracehouse.contract.memory import Memory
from tracehouse.contract.regions import REGIONS_MAX, Region
from tracehouse.differential import size_samples
from tracehouse.differential.fixed_dims import collect_fixed_dims, fix_region, fix_shape


@dataclass(frozen=True)
class ComparedSizes:
    """Sizes at which the eager model answered, by symbol, and whether the artifact agreed with it."""

    sizes: Mapping[str, int]
    agrees: bool


def find_contradicted(
    proven: Iterable[Region], compared: Sequence[ComparedSizes]
) -> list[tuple[Region, ComparedSizes]]:
    """Return each proven region inside which a call differed, with the sizes of the first such call."""
    differing = [one for one in compared if not one.agrees]
    pairs = ((region, next((one for one in differing if region.contains(one.sizes)), None)) for region in proven)
    return [(region, one) for region, one in pairs if one is not None]


def make_claim(
    groups: Groups,
    compared: Sequence[ComparedSizes],
    proven: Sequence[Region],
    *,
    values: Mapping[str, ValueRange] | None = None,
    batch: Batch | None = None,
    memory: Memory | None = None,
) -> MethodClaim:
    """Return the claim: the proven regions that no call contradicts, and the single sizes at which a call agreed.

    A symbol for which only the example's size is known to be right is fixed at that size, with the reason. `values` has
    the accepted integers by input, and `memory` what a call needs. At most REGIONS_MAX regions are kept.
    """
    contradicted = [region for region, _ in find_contradicted(proven, compared)]
    uncontradicted = [region for region in proven if region not in contradicted]
    differing = [one.sizes for one in compared if not one.agrees]
    agreed = [one.sizes for one in compared if one.agrees and one.sizes not in differing]
    fixed: dict[str, Reason] = {
        symbol: _reason(symbol, groups, compared)
        for symbol in groups.symbols
        if not _is_open(symbol, groups, uncontradicted, agreed)
    }
    free = [symbol for symbol in groups.symbols if symbol not in fixed]
    regions = [fix_region(region, fixed) for region in uncontradicted if _has_example(region, groups, fixed)]
    own = {symbol: groups.example[symbol] for symbol in fixed}
    at_fixed = [sizes for sizes in agreed if own.items() <= sizes.items()]
    free_sizes = [{symbol: sizes[symbol] for symbol in free} for sizes in at_fixed] if free else []
    regions += size_samples.tested_regions(
        [sizes for sizes in free_sizes if not any(region.contains(sizes) for region in regions)]
    )
    return MethodClaim(
        shapes={name: fix_shape(shape, own) for name, shape in groups.shapes.items()},
        fixed=collect_fixed_dims(groups.shapes, groups.fixed, fixed),
        values=dict(values or {}),
        regions=regions[:REGIONS_MAX],
        batch=batch if batch is not None and batch.symbol in free else None,
        memory=None if memory is None else memory.at_fixed(own),
    )


def _is_open(symbol: str, groups: Groups, proven: Iterable[Region], agreed: Iterable[Mapping[str, int]]) -> bool:
    """Whether the artifact is known to be right for a size of this symbol other than the example's."""
    example = groups.example[symbol]
    if any(sizes[symbol] != example for sizes in agreed):
        return True
    spans = [span for region in proven for span in region.spans[symbol]]
    return any((span.low, span.high) != (example, example) for span in spans)


def _reason(symbol: str, groups: Groups, compared: Iterable[ComparedSizes]) -> Reason:
    if any(not one.agrees and one.sizes[symbol] != groups.example[symbol] for one in compared):
        return "trace"
    return "model" if symbol in groups.refusals else "untried"


def _has_example(region: Region, groups: Groups, fixed: Mapping[str, Reason]) -> bool:
    return all(any(groups.example[symbol] in span for span in region.spans[symbol]) for symbol in fixed)
