"""Drawn values are made to show what the example shows, and all other values are left as they were drawn."""

from typing import Any

import numpy as np
import pytest

from tracehouse.differential.example_patterns import keep_patterns

RNG = np.random.default_rng(0)


def drawn(example: Any, shape: tuple[int, ...] | None = None, dtype: Any = np.int64) -> list[Any]:
    """What values drawn at random become beside this example."""
    own = np.array(example, dtype)
    shape = own.shape if shape is None else shape
    is_float = np.issubdtype(dtype, np.floating)
    values = RNG.standard_normal(shape) if is_float else RNG.integers(0, 2 if dtype is np.bool_ else 9, shape)
    kept = keep_patterns(own, values.astype(dtype))
    assert kept.dtype == dtype
    assert kept.shape == shape
    return kept.tolist()  # type: ignore[no-any-return]


def test_lengths_that_descend_still_do() -> None:
    lengths = drawn([6, 4, 4, 2], (7,))

    assert lengths == sorted(lengths, reverse=True)


def test_offsets_ascend_from_zero() -> None:
    offsets = drawn([0, 2, 2, 5], (7,))

    assert offsets == sorted(offsets)
    assert offsets[0] == 0


def test_edges_that_ascend_still_do() -> None:
    edges = drawn([0.5, 1.0, 7.0], (6,), np.float32)

    assert edges == sorted(edges)


@pytest.mark.parametrize("example", [[2, 0, 3, 1], [[1, 0, 2], [0, 2, 1]]])
def test_a_permutation_has_each_place_once(example: Any) -> None:
    rows = np.array(drawn(example))

    assert (np.sort(rows, -1) == np.arange(rows.shape[-1])).all()


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.bool_])
def test_a_one_hot_row_has_a_single_one(dtype: Any) -> None:
    rows = np.array(drawn([[0, 1, 0], [1, 0, 0]], (5, 4), dtype)).astype(int)

    assert rows.sum(-1).tolist() == [1] * 5
    assert set(rows.reshape(-1).tolist()) == {0, 1}


@pytest.mark.parametrize("dtype", [np.int64, np.bool_])
def test_a_mask_is_padded_on_the_side_of_the_example(dtype: Any) -> None:
    right = drawn([[1, 1, 1], [1, 1, 0]], (6, 5), dtype)
    left = drawn([[1, 1, 1], [0, 1, 1]], (6, 5), dtype)

    assert all(row == sorted(row, reverse=True) and row[0] == 1 for row in right)
    assert all(row == sorted(row) and row[-1] == 1 for row in left)


def test_probabilities_are_shares_of_one() -> None:
    rows = np.array(drawn([[0.25, 0.75], [0.5, 0.5]], (4, 3), np.float32))

    assert (rows >= 0).all()
    assert rows.sum(-1) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("example", [[3, 1, 3], [[1.0, -2.0], [0.5, 3.0]], [[1, 1], [1, 1]], 7, []])
def test_values_without_a_pattern_stay_as_they_were_drawn(example: Any) -> None:
    values = np.array([[5, 2], [9, 9]])

    assert keep_patterns(np.array(example), values) is values
