"""Numbers: a list of JSON that has only numbers, nested or not, as an array, without an object for each number."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """What a list of this shape has, flat: `int64` if all were written as whole numbers, else `float64`."""

    flat: NDArray[Any]
    shape: tuple[int, ...]

    @property
    def are_whole(self) -> bool:
        return self.flat.dtype == np.int64

    def items(self) -> "list[Numbers]":
        """Return the lists that it is a list of, if it nests."""
        return [Numbers(part, self.shape[1:]) for part in np.split(self.flat, self.shape[0])]
