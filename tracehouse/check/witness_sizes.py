"""Witness sizes: the sizes at which calls try out a proof, those at which calls stand in for one, and small ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, prod

from tracehouse.check.graphs.choose_sizes import choose_small_sizes
from tracehouse.check.graphs.size_tests import SizeTest
from tracehouse.check.prove.prover import Proof
from tracehouse.check.size_groups import Groups

Sizes = Mapping[str, int]

# Several symbols have their largest sizes together only if the inputs have so many elements at most, or so many times
# the example's. Chosen: a model may take far longer than its inputs grow.
_ELEMENTS_MAX = 2**14
_TIMES_EXAMPLE = 4
# A model with more parameters has no size called at which the inputs have more than that many times the example's
# elements: it takes as many times as long, and the verification calls such sizes as far as there is time. Chosen.
_PARAMETERS_MAX = 2**22


def border_sizes(
    proof: Proof, groups: Groups, called: Sequence[SizeTest], *, is_baked: bool, parameters: int
) -> list[Sizes]:
    """Return sizes at the borders of what each case of the proof covers, without those that were called.

    The model has so many `parameters`: one with many is called at no sizes that take far longer than the example's.

    Both sides of each threshold that a line puts on the sizes are among them. If there are gaps, and no size is baked
    into the trace, small sizes that are not proven are among them.
    """
    known = [dict(one.sizes) for one in called]
    small = choose_small_sizes(groups, known) if proof.gaps and not is_baked else []
    border = [*(one.sizes for one in proof.refutations), *_within_reach(proof.borders, groups, once=True)]
    border += [side for one in proof.thresholds for side in (one.holds, one.fails)]
    border += [sizes for sizes in small if not is_proven(sizes, proof)]
    most = _TIMES_EXAMPLE * _elements(groups, groups.example) if parameters > _PARAMETERS_MAX else inf
    return _different(sizes for sizes in border if dict(sizes) not in known and _have_at_most(groups, sizes, most))


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
        most = max(_ELEMENTS_MAX, _TIMES_EXAMPLE * _elements(groups, groups.example))
        if _have_at_most(groups, largest, most):
            yield largest
        else:
            alone = {(symbol, size) for symbol, size in largest.items() if size != smallest[symbol]} - called
            yield from ({**smallest, symbol: size} for symbol, size in largest.items() if (symbol, size) in alone)
            called |= alone if once else set()


def _have_at_most(groups: Groups, sizes: Sizes, most: float) -> bool:
    """Whether there are inputs of these sizes, with so many elements at most."""
    try:
        return _elements(groups, sizes) <= most
    except ValueError:  # a dim would be negative
        return False


def _elements(groups: Groups, sizes: Sizes) -> int:
    return sum(prod(shape) for shape in groups.sizes(sizes).values())


def _different(samples: Iterable[Sizes]) -> list[Sizes]:
    return [*{tuple(sorted(sizes.items())): sizes for sizes in samples}.values()]
