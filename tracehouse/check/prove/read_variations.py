"""Read variations: other values for those that a run read of its inputs, as a run on symbols is repeated with them.

A read that changes nothing at the example's sizes may change the result at others. So each symbolic case reads other
values as well, and goes on with its proof only if the result stays the same.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tracehouse.introspection import user_lines

_TRUTHS_MAX = 5  # of so many truths, all combinations are read: each is a run. A choice.
_NUMBERS_MAX = 4  # so many of the numbers that values are compared with are put in the place of each read


_Values = Mapping[user_lines.Line | None, Sequence[Any]]  # those that each line reads


@dataclass(frozen=True)
class RecordedRead:
    """A value of a tensor that became a value of Python's, and the line that read it.

    `follows_inputs`: whether it follows from the values of the inputs, and not from their sizes and the model alone.
    """

    line: user_lines.Line | None
    value: Any
    follows_inputs: bool = True


@dataclass(frozen=True)
class Variation:
    """Other values, by the line that reads them and the place among its reads; `others` is for reads that follow.

    `is_combined`: it changes some truths together of which none alone changed anything.
    """

    values: Mapping[tuple[user_lines.Line | None, int], Any]
    others: bool = False
    is_combined: bool = False


def vary_reads(reads: Sequence[RecordedRead], numbers: Iterable[float]) -> Iterator[Variation]:
    """Yield other values for the reads of each line: of the first, of the last, and of all; then for all lines.

    Few truths are then changed in all combinations. `numbers` are those that values may be compared with.
    """
    by_line: dict[user_lines.Line | None, list[Any]] = defaultdict(list)
    for read in reads:
        by_line[read.line].append(read.value)
    varied = [*_vary_lines(by_line, numbers)]
    yield from varied
    if are_few_truths(reads):
        known = [one.values for one in varied]
        yield from (one for one in _combine_truths(by_line) if one.values not in known)


def are_few_truths(reads: Sequence[RecordedRead]) -> bool:
    """Whether all values are truths, and so few that `vary_reads` yields each combination of them."""
    return len(reads) <= _TRUTHS_MAX and all(type(read.value) is bool for read in reads)


def _vary_lines(by_line: _Values, numbers: Iterable[float]) -> Iterator[Variation]:
    nearest = sorted({*numbers}, key=abs)[:_NUMBERS_MAX]
    for line, values in by_line.items():
        for places in {(0,): None, (len(values) - 1,): None, tuple(range(len(values))): None}:
            others = [[*_other_values(values[place], nearest)] for place in places]
            for one in zip(*others, strict=False):
                yield Variation({(line, place): value for place, value in zip(places, one, strict=True)})
    if len(by_line) > 1:
        yield Variation(
            {
                (line, place): next(_other_values(value, nearest))
                for line, values in by_line.items()
                for place, value in enumerate(values)
            }
        )


def _combine_truths(by_line: _Values) -> Iterator[Variation]:
    truths = [((line, place), value) for line, values in by_line.items() for place, value in enumerate(values)]
    for count in range(1, len(truths) + 1):
        for chosen in combinations(truths, count):
            yield Variation({place: not value for place, value in chosen}, is_combined=count > 1)


def _other_values(value: Any, numbers: Sequence[float]) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
        return
    near = [value + 1, value - 1, 2 * value + 1, -value - 1]
    far = [one for number in numbers for one in (number - 1, number, number + 1)]
    if isinstance(value, int):
        yield from (int(one) for one in [*near, *far] if math.isfinite(one))
    else:
        yield from [*near, *far, math.inf, -math.inf, math.nan]
