"""A grid has one place for sizes that nothing has told apart, and its regions are exactly what holds."""

import numpy as np

from tracehouse.check.prove.size_grid import Grid, Mask, Plane, SizeSet, plane_of_sizes

A, B = np.arange(1, 30), np.asarray([1, *range(2, 40, 2)])


def plane(holds: Mask) -> Plane:
    return Plane({"a": np.arange(len(A)), "b": np.arange(len(B))}, holds).merge_places()


def points_of(grid: Grid, mask: Mask) -> set[tuple[int, int]]:
    return {
        (a, b)
        for region in grid.regions(mask, "proven")
        for a in A.tolist()
        for b in B.tolist()
        if region.contains({"a": a, "b": b})
    }


def test_regions_are_the_sizes_at_which_all_planes_hold() -> None:
    holds = (A[:, None] % 3 == 0) & (B != 8) | (A[:, None] == B)
    planes = [plane(holds), plane_of_sizes("b", B < 30)]
    grid, _ = Grid({"a": A, "b": B}).split(planes)
    mask = grid.where(planes)

    expected = {
        (a, b) for (x, a) in enumerate(A.tolist()) for (y, b) in enumerate(B.tolist()) if holds[x, y] and b < 30
    }
    assert points_of(grid, mask) == expected
    assert grid.count(mask) == len(expected)
    assert all(({"a": a, "b": b} in SizeSet(grid, mask)) == ((a, b) in expected) for a in range(35) for b in range(45))


def test_sizes_that_are_alike_share_a_place() -> None:
    planes = [plane((A[:, None] > 4) & (B > 6))]
    grid, old_places = Grid({"a": A, "b": B}).split(planes)

    assert grid.shape == (2, 2)
    assert [places.tolist() for places in old_places] == [[0, 0], [0, 0]]
    assert [str(region) for region in grid.regions(grid.where(planes), "proven")] == [
        "a 5 to 29, b 8 to 38 in steps of 2"
    ]


def test_the_nearest_point_is_of_the_mask_and_a_size_of_one_is_far_unless_it_is_the_examples() -> None:
    planes = [plane_of_sizes("a", A != 5), plane_of_sizes("b", B != 2)]
    grid, _ = Grid({"a": A, "b": B}).split(planes)
    mask = grid.where(planes)

    assert grid.nearest(mask, {"a": 5, "b": 2}) == {"a": 6, "b": 4}
    assert grid.nearest(mask, {"a": 5, "b": 2}, batches=["b"])["b"] in (1, 4)
    assert grid.nearest(mask, {"a": 5, "b": 1}) == {"a": 6, "b": 1}


def test_a_grid_of_many_symbols_is_counted() -> None:
    grid = Grid(dict.fromkeys("abcd", range(1, 1025)))

    assert grid.shape == (1, 1, 1, 1)
    assert grid.count(grid.full_mask()) == 1024**4
