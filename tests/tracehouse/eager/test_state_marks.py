"""Marks see that an iterator has gone on, and stay equal as long as it has not."""

import itertools
from collections.abc import Iterator

import pytest

from tracehouse.eager.state_marks import mark_value

ITERATORS = {
    "cycle": itertools.cycle([1.0, 1.0, 2.0]),
    "chain": itertools.chain([1], [2, 3, 4, 5, 6]),
    "zip": zip([1, 2, 3, 4, 5], strict=True),
    "enumerate": enumerate([1] * 5),
    "repeat": itertools.repeat(1, 5),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_is_marked_by_how_far_it_has_come(name: str) -> None:
    iterator: Iterator[object] = ITERATORS[name]
    for _ in range(4):
        before = mark_value(iterator)
        assert mark_value(iterator) == before
        next(iterator)
        assert mark_value(iterator) != before
