"""Wanted sizes: those that are to be proven, by symbol. A request names them; where it names none, they are usual ones.

Conditions are evaluated at the sizes of a symbol, and not at each combination. So many symbols have as many sizes each
as one alone has.
"""

from itertools import chain
from math import prod

from tracehouse.check.size_groups import Groups
from tracehouse.contract.dims import parse_dim, symbols_of

# The largest sizes that are wanted where a request names none: of a batch; of a length, which may be the side of an
# image; of either, so many times the example's size if that is more.
BATCH_MAX = 256
LENGTH_MAX = 1024
TIMES_EXAMPLE = 4
# The only length of its inputs, such as that of a sound, may be so many times as long, as far as the inputs have so
# many elements at most: calls of such sizes are cheap, and the ends of a region are called.
TIMES_LONG = 64
LONG_ELEMENTS = 2**18
# Sizes of one symbol.
SIZES_MAX = 2**18


def default_sizes(groups: Groups) -> dict[str, list[int]]:
    """Return the sizes that are wanted of each symbol where a request names none.

    They begin at 1, and at 0 if the model takes that, and include the example's.
    """
    return {symbol: _sizes_of(symbol, groups) for symbol in groups.symbols}


def limit_sizes(sizes: range, example: int) -> range:
    """Return at most SIZES_MAX of the sizes: those about the example's."""
    if len(sizes) <= SIZES_MAX:
        return sizes
    place = (min(max(example, sizes.start), sizes[-1]) - sizes.start) // sizes.step
    first = min(max(0, place - SIZES_MAX // 2), len(sizes) - SIZES_MAX)
    return sizes[first : first + SIZES_MAX]


def is_batch(symbol: str, groups: Groups) -> bool:
    """Whether the symbol is the first dim of every input that has symbols, and no other dim."""
    return groups.is_leading(symbol) and groups.is_in_all_inputs(symbol)


def _sizes_of(symbol: str, groups: Groups) -> list[int]:
    example, step = groups.example[symbol], groups.step(symbol)
    lowest, highest = max(min(1, example), _least(symbol, groups)), max(_highest(symbol, groups), example)
    empty = [0] if symbol in groups.may_be_empty else []
    return [*empty, *range(lowest + (example - lowest) % step, highest + 1, step)]


def _least(symbol: str, groups: Groups) -> int:
    """Return the first size from 0 on at which no dim that has this symbol alone, such as `(n-10)//5`, is negative."""
    alone = [parse_dim(dim) for shape in groups.shapes.values() for dim in shape if symbols_of([dim]) == {symbol}]
    growing = [(dim.plus, dim.terms[0][1]) for dim in alone if dim.terms[0][1] > 0]
    return max((-(plus // times) for plus, times in growing), default=0)


def _highest(symbol: str, groups: Groups) -> int:
    example = groups.example[symbol]
    if is_batch(symbol, groups):
        return max(BATCH_MAX, TIMES_EXAMPLE * example)
    usual = max(LENGTH_MAX, TIMES_EXAMPLE * example)
    shapes = {name: shape for name, shape in groups.shapes.items() if symbol in symbols_of(shape)}
    if any(not is_batch(other, groups) for other in symbols_of(chain(*shapes.values())) - {symbol}):
        return usual
    elements = max(prod(sizes) for name, sizes in groups.sizes({}).items() if name in shapes)
    return max(usual, min(TIMES_LONG * example, LONG_ELEMENTS * example // max(1, elements), SIZES_MAX))
