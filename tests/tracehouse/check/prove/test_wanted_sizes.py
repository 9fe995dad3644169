"""Usual sizes are wanted of each symbol, however many symbols there are."""

from typing import Any

from tracehouse.check.prove.wanted_sizes import SIZES_MAX, default_sizes, limit_sizes
from tracehouse.check.size_groups import Groups


def ends_of(shapes: dict[str, Any], example: dict[str, int], **given: Any) -> dict[str, tuple[int, int]]:
    groups = Groups(shapes, example, {name: {} for name in shapes}, **given)
    return {symbol: (sizes[0], sizes[-1]) for symbol, sizes in default_sizes(groups).items()}


def test_an_image_has_sides_up_to_1024_beside_a_batch() -> None:
    ends = ends_of({"x": ("batch", 3, "height", "width")}, {"batch": 2, "height": 64, "width": 96})

    assert ends == {"batch": (1, 256), "height": (1, 1024), "width": (1, 1024)}


def test_a_sound_may_be_seconds_long() -> None:
    assert ends_of({"x": ("batch", 1, "n0")}, {"batch": 1, "n0": 4000})["n0"] == (1, 256_000)


def test_a_length_may_be_empty_where_the_model_takes_that() -> None:
    shapes = {"x": ("batch", "seq"), "past": ("batch", "past", 8)}
    ends = ends_of(shapes, {"batch": 2, "seq": 1, "past": 5}, may_be_empty=frozenset({"past"}))

    assert ends == {"batch": (1, 256), "seq": (1, 1024), "past": (0, 1024)}


def test_the_number_of_nodes_is_no_batch() -> None:
    assert ends_of({"nodes": ("n0", 4), "edges": (2, "n1")}, {"n0": 6, "n1": 9})["n0"] == (1, 1024)


def test_sizes_have_the_step_of_the_model() -> None:
    groups = Groups({"x": (1, 3, "height")}, {"height": 40}, {"x": {}}, steps={"height": 16})

    assert default_sizes(groups)["height"][:3] == [8, 24, 40]


def test_sizes_without_number_are_those_about_the_example() -> None:
    sizes = limit_sizes(range(8, 2**48, 8), 80_000)

    assert 80_000 in sizes
    assert len(sizes) == SIZES_MAX
