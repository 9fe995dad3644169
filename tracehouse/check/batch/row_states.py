"""Row states: what is known of a tensor of a call about the rows of the inputs.

The states are of the same call with several numbers of rows. So a dim that grows with them is told from one that has
as many entries by chance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tracehouse.check.batch.operator_stream import Shape


class Fixed(Enum):
    """A tensor that holds nothing of any row."""

    CONSTANT = auto()  # the same for all numbers of rows
    UNIFORM = auto()  # one value, the same for all numbers of rows, in all its entries
    COUNTED = auto()  # anything else that depends on the number of rows


@dataclass(frozen=True)
class Rows:
    """A tensor whose entries for a row depend on that row alone, and on neither its place nor the number of rows.

    The row of the entry at `place`, in the order of a contiguous tensor, is `place // stride % rows`. A view of the
    entries in that order keeps the stride.
    """

    stride: int


@dataclass(frozen=True)
class Mixed:
    """A tensor whose entries may depend on several rows, on a row's place or on the number of rows."""

    reason: str


@dataclass(frozen=True)
class Starts:
    """The numbers 0, `step`, 2 * `step` and so on, one for each row. With a step of 1, they are the places of rows."""

    step: int


State = Fixed | Starts | Rows | Mixed
PLACES = Starts(1)


@dataclass(frozen=True)
class Place:
    """Where rows are: row after row in blocks of `inner` entries along `dim`, `outer` times over."""

    dim: int
    inner: int
    outer: int

    def stride(self, shape: Shape) -> int:
        """Return the stride of rows at this place in a tensor of this shape."""
        return math.prod(shape[self.dim + 1 :]) * self.inner


def locate(stride: int, shape: Shape, rows: int) -> Place | None:
    """Return the place of rows with this stride, or None if they are spread over several dims."""
    below = 1
    for dim in reversed(range(len(shape))):
        if stride < below * shape[dim]:
            inner, rest = divmod(stride, below)
            if rest or shape[dim] % (inner * rows):
                return None
            return Place(dim, inner, shape[dim] // (inner * rows))
        below *= shape[dim]
    return None


def find_growing_dims(shapes: Sequence[Shape], rows: Sequence[int]) -> list[int] | None:
    """Return the dims whose sizes are multiples of the number of rows, or None if sizes depend on it otherwise.

    `shapes` has a tensor's shape for each number of rows.
    """
    if len({len(shape) for shape in shapes}) > 1:
        return None
    grows = [dim for dim, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
    for dim in grows:
        if len({(*divmod(shape[dim], count),) for shape, count in zip(shapes, rows, strict=True)}) > 1:
            return None
        if shapes[0][dim] % rows[0]:
            return None
    return grows
