"""Witness sizes: the sizes at which calls try out a proof, those at which calls stand in for one, and small ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from tracehouse.check.graphs.choose_sizes import choose_small_sizes
from tracehouse.check.graphs.size_tests import SizeTest
from tracehouse.check.prove.prover import Proof
from tracehouse.check.size_groups import Groups
from tracehouse.contract.regions import Span

Sizes = Mapping[str, int]

# Several symbols have their largest sizes together only if the inputs have so many elements at most, or so many times
# the example's. Chosen: a model may take far longer than its inputs grow.
_ELEMENTS_MAX = 2**14
_TIMES_EXAMPLE = 4


def border_sizes(proof: Proof, groups: Groups, called: Sequence[SizeTest], *, is_baked: bool) -> list[Sizes]:
    """Return sizes at the borders of what each case of the proof covers, without those that were called.

    Both sides of each threshold that a line puts on the sizes are among them. If there are gaps, and no size is baked
    into the trace, small sizes that are not proven are among them.
    """
    known = [dict(one.sizes) for one in called]
    small = choose_small_sizes(groups, known) if proof.gaps and not is_baked else []
    border = [*(one.sizes for one in proof.refutations), *_within_reach(proof.borders, groups, once=True)]
    border += [side for one in proof.thresholds for side in (one.holds, one.fails)]
    border += [sizes for sizes in small if not is_proven(sizes, proof)]
    return _different(sizes for sizes in border if dict(sizes) not in known)


def doubtful_sizes(proof: Proof, groups: Groups, called: Sequence[SizeTest]) -> list[Sizes]:
    """Return sizes at which both might differ on values other than those drawn: those that are not proven and were
    called, and the first and the last of each region that is not proven for all values."""
    doubtful: list[Sizes] = []
    if proof.gaps:
        unproven = [*(one.sizes for one in proof.gaps), *(one.sizes for one in called if one.agrees)]
        doubtful += [sizes for sizes in unproven if not is_proven(sizes, proof)]
    ends = [
        (
            {name: spans[0].low for name, spans in region.spans.items()},
            {name: spans[-1].high for name, spans in region.spans.items()},
        )
        for region in proof.sampled
    ]
    return _different([*doubtful, *_within_reach(ends, groups)])


def stand_in_sizes(proof: Proof, groups: Groups, least: int) -> Sizes:
    """Return smaller sizes that are proven together with the example's: calls cost less there. Else the example's.

    A size that becomes smaller is not below `least`.
    """
    for region in proof.regions:
        if region.contains(groups.example):
            return {symbol: _smallest(region.spans[symbol], size, least) for symbol, size in groups.example.items()}
    return groups.example


def is_proven(sizes: Sizes, proof: Proof) -> bool:
    """Whether the sizes lie in a region that is proven for all values."""
    return any(region.contains(sizes) for region in proof.regions)


def _within_reach(ends: Iterable[tuple[Sizes, Sizes]], groups: Groups, *, once: bool = False) -> Iterator[Sizes]:
    """Yield the ends, of which each is a pair: the smallest sizes and the largest.

    In the place of largest sizes that take too long together, each symbol has its largest size beside the others'
    smallest: in each pair, or `once` beside the first ones.
    """
    called: set[tuple[str, int]] = set()
    for smallest, largest in ends:
        yield smallest
        if _elements(groups, largest) <= max(_ELEMENTS_MAX, _TIMES_EXAMPLE * _elements(groups, groups.example)):
            yield largest
        else:
            alone = {(symbol, size) for symbol, size in largest.items() if size != smallest[symbol]} - called
            yield from ({**smallest, symbol: size} for symbol, size in largest.items() if (symbol, size) in alone)
            called |= alone if once else set()


def _smallest(spans: Sequence[Span], size: int, least: int) -> int:
    """Return the smallest size of the spans that may stand in for this one, which is in them."""
    firsts = [span.low + max(0, -(-(least - span.low) // span.step)) * span.step for span in spans]
    return min([first for first, span in zip(firsts, spans, strict=True) if first in span and first < size] or [size])


def _elements(groups: Groups, sizes: Sizes) -> int:
    return sum(prod(shape) for shape in groups.sizes(sizes).values())


def _different(samples: Iterable[Sizes]) -> list[Sizes]:
    return [*{tuple(sorted(sizes.items())): sizes for sizes in samples}.values()]
