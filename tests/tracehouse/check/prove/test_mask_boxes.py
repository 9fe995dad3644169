"""Mask boxes: a few boxes stand for a mask, exactly where a few are enough, and from inside where they are not."""

from itertools import pairwise

import numpy as np
import pytest

from tracehouse.check.prove.mask_boxes import Box, Mask, boxes_within

SIDE = 60


def weights_of(mask: Mask) -> list[np.ndarray]:
    return [1 / (np.arange(size) + 1.0) for size in mask.shape]


def cells_of(boxes: list[Box], mask: Mask) -> Mask:
    covered = np.zeros_like(mask)
    for box in boxes:
        covered[np.ix_(*box)] = True
    return covered


@pytest.fixture
def hyperbola() -> Mask:
    """Sizes of images of at most so many pixels, for two kinds of batches: a box for each height, and more."""
    rows, columns = np.mgrid[1 : SIDE + 1, 1 : SIDE + 1]
    return np.stack([rows * columns <= 6 * SIDE, rows * columns <= 4 * SIDE])


def test_a_mask_of_few_boxes_is_covered_to_the_last_cell(hyperbola: Mask) -> None:
    boxes = boxes_within(hyperbola, weights_of(hyperbola), 1000)

    assert (cells_of(boxes, hyperbola) == hyperbola).all()


def test_fewer_boxes_than_the_mask_needs_cover_most_of_it_and_nothing_else(hyperbola: Mask) -> None:
    boxes = boxes_within(hyperbola, weights_of(hyperbola), 10)

    covered = cells_of(boxes, hyperbola)
    assert len(boxes) == 10
    assert not (covered & ~hyperbola).any()
    assert covered.sum() > 0.75 * hyperbola.sum()


def test_each_box_adds_something_and_the_first_adds_most(hyperbola: Mask) -> None:
    boxes = boxes_within(hyperbola, weights_of(hyperbola), 20)
    counts = [cells_of(boxes[:count], hyperbola).sum() for count in range(len(boxes) + 1)]

    assert all(more > less for less, more in pairwise(counts))


def test_small_sizes_weigh_more_than_large_ones() -> None:
    mask = np.zeros((2, 300), dtype=bool)
    mask[0, :3], mask[1, 250:] = True, True

    assert boxes_within(mask, weights_of(mask), 1) == [((0,), (0, 1, 2))]


def test_a_mask_without_a_cell_has_no_box() -> None:
    assert boxes_within(np.zeros((2, 3), dtype=bool), [np.ones(2), np.ones(3)], 4) == []
