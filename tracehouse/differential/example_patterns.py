"""Patterns of an example's values: what a model may insist on, and what values drawn at random break.

A model may take sorted lengths, offsets, permutations, one-hot rows, padded masks or probabilities alone. If the
example of an input shows such a pattern, drawn values can be made to show it too. That an example shows a pattern does
not say that the model needs it, so inputs that break it are tried as well.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]  # in the shape of the tensor
# Whether values show a pattern, and which values that show it are like given ones.
Pattern = tuple[Callable[[Values], bool], Callable[[Values], Values]]

# How far from 1 the sum of probabilities may be, as torch.distributions takes them. Chosen.
_SUM_TOLERANCE = 1e-3


def keep_patterns(example: Values, drawn: Values) -> Values:
    """Return the drawn values, changed such that they show the first pattern that the example shows, if it shows one.

    Their shape may be another than the example's.
    """
    if not drawn.size or not example.size or not example.ndim:
        return drawn
    for shows, keep in _PATTERNS:
        if shows(example):
            return keep(drawn).astype(drawn.dtype)
    return drawn


def _is_permutation(values: Values) -> bool:
    """Whether each row of integers has the numbers from 0 on, each once."""
    if not _has_rows(values, "iu"):
        return False
    return bool((np.sort(values, axis=-1) == np.arange(values.shape[-1])).all())


def _rank(values: Values) -> Values:
    return values.argsort(axis=-1, kind="stable").argsort(axis=-1, kind="stable")


def _is_one_hot(values: Values) -> bool:
    """Whether each row has a single one, and zeros beside it."""
    if values.ndim < 2 or values.shape[-1] < 2:
        return False
    return _is_binary(values) and bool((values.astype(np.int64).sum(axis=-1) == 1).all())


def _mark_largest(values: Values) -> Values:
    marked: Values = np.arange(values.shape[-1]) == values.argmax(axis=-1)[..., None]
    return marked


def _is_padded_right(values: Values) -> bool:
    """Whether each row of a mask has its ones first, at least one of them, and some row has zeros."""
    if values.ndim < 2 or not _is_binary(values) or bool(values.all()):
        return False
    numbers = values.astype(np.int64)
    return bool((numbers[..., 0] == 1).all() and (np.diff(numbers, axis=-1) <= 0).all())


def _is_padded_left(values: Values) -> bool:
    return values.ndim >= 2 and _is_padded_right(values[..., ::-1])


def _pad_right(values: Values) -> Values:
    """Return each row's ones first; a row without ones gets one."""
    ones = np.maximum((values != 0).sum(axis=-1), 1)
    padded: Values = np.arange(values.shape[-1]) < ones[..., None]
    return padded


def _pad_left(values: Values) -> Values:
    return _pad_right(values)[..., ::-1]


def _are_probabilities(values: Values) -> bool:
    """Whether each row of floats has shares of 1."""
    if not _has_rows(values, "f") or not bool((values >= 0).all()):
        return False
    return bool((np.abs(values.astype(np.float64).sum(axis=-1) - 1) < _SUM_TOLERANCE).all())


def _normalise(values: Values) -> Values:
    sizes = np.abs(np.nan_to_num(values.astype(np.float64), posinf=1.0, neginf=1.0)) + np.finfo(np.float32).tiny
    shares: Values = sizes / sizes.sum(axis=-1, keepdims=True)
    return shares


def _ascends(values: Values) -> bool:
    return values.ndim == 1 and values.size > 1 and bool((values[1:] >= values[:-1]).all())


def _descends(values: Values) -> bool:
    return _ascends(values[::-1])


def _sort_from_zero(values: Values) -> Values:
    """Return ascending offsets, of which the first is 0."""
    ordered = np.sort(values)
    ordered[0] = 0
    return ordered


def _are_offsets(values: Values) -> bool:
    return bool(np.issubdtype(values.dtype, np.integer)) and _ascends(values) and int(values[0]) == 0


def _is_binary(values: Values) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _has_rows(values: Values, kinds: str) -> bool:
    return values.ndim >= 1 and values.shape[-1] > 1 and values.dtype.kind in kinds


# The strictest first.
_PATTERNS: list[Pattern] = [
    (_is_one_hot, _mark_largest),
    (_is_padded_right, _pad_right),
    (_is_padded_left, _pad_left),
    (_are_probabilities, _normalise),
    (_are_offsets, _sort_from_zero),
    (_ascends, np.sort),
    (_descends, lambda values: np.sort(values)[::-1]),
    (_is_permutation, _rank),
]
