"""How large numbers usually are: what the golden cases have, and some room. This module loads no torch."""

from collections.abc import Iterable

import numpy as np

from tracehouse.tensors.tensor import Tensor, array

# A float is usual up to so many times the largest one of the golden cases, or 1 if that is larger. Chosen: it leaves
# room for what a model is asked later, and numbers that grow with it stay far below the largest float.
_ROOM = 100.0
# No float beyond this is usual, whatever the golden cases have: the largest that there is has room for the third power
# of such numbers, and for what weights make of it. Chosen.
FLOAT_MAX = 1e6
# An integer is usual up to this: there are no larger tables of words. Chosen.
INTEGER_MAX = 2**20


def usual_max(inputs: Iterable[Tensor]) -> float:
    """Return up to which size floats are usual, by the inputs of all golden cases."""
    floats = (array(one.datatype, one.data).astype(np.float64) for one in inputs if one.datatype.is_float)
    finite = (np.abs(one[np.isfinite(one)]) for one in floats)
    largest = max((float(one.max(initial=0.0)) for one in finite), default=0.0)
    return min(FLOAT_MAX, _ROOM * max(1.0, largest))
