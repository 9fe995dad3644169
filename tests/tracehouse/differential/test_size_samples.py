"""Points: which sizes of a region are worth being tried."""

from itertools import islice

import numpy as np
import pytest

from tracehouse.contract.regions import Region, Span
from tracehouse.differential import size_samples


def region(**spans: list[tuple[int, int, int]]) -> Region:
    return Region(
        spans={symbol: [Span(low=low, high=high, step=step) for low, high, step in found]
               for symbol, found in spans.items()},
        basis="proven",
    )  # fmt: skip


HOLED = region(batch=[(1, 8, 1)], seq=[(2, 6, 2), (9, 12, 1)])


def test_corners_are_the_ends_of_all_symbols_together() -> None:
    found = size_samples.corner_sizes(HOLED)

    assert [tuple(point.values()) for point in found] == [(1, 2), (1, 12), (8, 2), (8, 12)]


def test_borders_are_the_sizes_beside_holes() -> None:
    found = size_samples.border_sizes(HOLED, {"batch": 3, "seq": 5})

    assert {point["seq"] for point in found} >= {2, 6, 9, 12}
    assert all(HOLED.contains(point) for point in found)


def test_what_is_drawn_lies_inside_and_varies() -> None:
    found = list(islice(size_samples.draw_sizes(HOLED, np.random.default_rng(0)), 50))

    assert all(HOLED.contains(point) for point in found)
    assert len({tuple(point.values()) for point in found}) > 10


def test_of_a_last_step_that_is_not_whole_the_end_is_the_size_before() -> None:
    assert size_samples.corner_sizes(region(n=[(1, 8, 3)])) == [{"n": 1}, {"n": 7}]


def test_every_size_comes_smallest_first() -> None:
    found = size_samples.list_sizes(HOLED, 5)

    assert found[0] == {"batch": 1, "seq": 2}
    assert len(found) == 5
    assert all(HOLED.contains(point) for point in found)


def test_a_point_is_shrunk_until_the_region_has_no_smaller_one() -> None:
    point = {"batch": 8, "seq": 12}
    seen = []
    while point is not None:
        assert HOLED.contains(point)
        seen.append(point)
        point = size_samples.shrink_sizes(point, HOLED)

    assert seen[-1] == {"batch": 1, "seq": 2}


def test_a_size_beyond_the_spans_is_made_smaller_last() -> None:
    spans = {"rows": [Span(low=1, high=256)], "width": [Span(low=1, high=1024)]}
    beyond = Region(spans=spans, basis="proven", beyond={"rows": 2**24, "width": 2**24})

    shrunk = size_samples.shrink_sizes({"rows": 224, "width": 1025}, beyond)
    assert shrunk == {"rows": 112, "width": 1025}
    assert size_samples.shrink_sizes({"rows": 1, "width": 1025}, beyond) == {"rows": 1, "width": 512}


@pytest.mark.parametrize(
    ("sizes", "spans"),
    [
        ([1, 2, 3], ["1 to 3"]),
        ([2, 4, 6, 7], ["2 to 6 in steps of 2", "7"]),
        ([5, 9], ["5", "9"]),
        ([8], ["8"]),
        ([1, 2, 4, 8, 16], ["1 to 2", "4", "8", "16"]),
    ],
)
def test_sizes_are_said_as_spans(sizes: list[int], spans: list[str]) -> None:
    found = size_samples.find_spans(sizes)

    assert [str(span) for span in found] == spans
    assert size_samples.smallest_sizes(found, 99) == sizes


def test_boxes_hold_these_points_and_no_others() -> None:
    some = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 2, "b": 2}, {"a": 3, "b": 1}]
    found = size_samples.join_into_boxes(some)

    held = [{"a": a, "b": b} for box in found for a in box["a"] for b in box["b"]]
    assert sorted(held, key=str) == sorted(some, key=str)
    assert len(found) == 2


def test_a_size_of_nothing_is_not_made_smaller_for_ever() -> None:
    spans = {"rows": [Span(low=0, high=0)], "length": [Span(low=7, high=9)]}

    assert size_samples.shrink_sizes({"rows": 0, "length": 8}, Region(spans=spans, basis="tested")) is None


def test_telling_points_are_the_largest_and_sizes_that_are_no_powers_of_two() -> None:
    points = [{"a": a, "b": b} for a, b in [(2, 2), (3, 2), (2, 5), (2, 7), (4, 4), (64, 128)]]

    assert size_samples.choose_telling_points(points) == [{"a": 64, "b": 128}, {"a": 3, "b": 2}, {"a": 2, "b": 5}]
    assert size_samples.choose_telling_points([*points, {"a": 99, "b": 300}]) == [{"a": 99, "b": 300}]
    assert size_samples.choose_telling_points([]) == []


def test_sizes_beyond_are_the_first_ones_and_random_ones_up_to_twice_as_large() -> None:
    going_on = Region(spans=HOLED.spans, basis="proven", beyond={"seq": 100})

    [first, drawn] = size_samples.beyond_sizes(going_on, {"batch": 3, "seq": 5}, np.random.default_rng(1))

    assert first == {"batch": 3, "seq": 13}
    assert 13 < drawn["seq"] <= 25
    assert size_samples.beyond_sizes(HOLED, {"batch": 3, "seq": 5}, np.random.default_rng(0)) == []
