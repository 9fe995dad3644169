"""Sized inputs: a method's example inputs at other sizes, with values drawn here."""

from collections.abc import Mapping
from math import prod

import numpy as np

from tracehouse.contract.contract import MethodContract
from tracehouse.contract.dims import shape_at
from tracehouse.contract.input_spec import ValueRange
from tracehouse.differential import random_inputs
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.size_samples import Sizes
from tracehouse.tensors.tensor import Tensor, array


class SizedInputs:
    """Draws inputs of any sizes of the contract's symbols. Integers stay in the example's and the claimed ranges."""

    def __init__(
        self,
        call: BoundCall,
        contract: MethodContract,
        values: Mapping[str, ValueRange],
        rng: np.random.Generator,
    ) -> None:
        self._example = call.inputs
        self._specs = contract.inputs
        self._rng = rng
        self._ranges = {
            tensor.name: _integer_range(tensor, values.get(tensor.name))
            for tensor in call.inputs
            if tensor.datatype.is_integer and len(tensor.data)
        }

    def draw(self, sizes: Sizes, number: int) -> list[Tensor]:
        """Return inputs of these sizes; draws of different numbers differ in kind."""
        return random_inputs.draw_sized(self._example, self._shapes(sizes), number, self._rng, self._ranges)

    def tile(self, sizes: Sizes) -> list[Tensor]:
        """Return the example's own values, repeated or cut off to these sizes."""
        return random_inputs.tile(self._example, self._shapes(sizes))

    def keep_patterns(self, drawn: list[Tensor]) -> list[Tensor]:
        """Return drawn inputs, changed such that they are sorted, say, if the example's are."""
        return random_inputs.keep_patterns(self._example, drawn)

    def are_possible(self, sizes: Sizes) -> bool:
        """Whether every dim is at least 0."""
        return all(size >= 0 for shape in self._shapes(sizes).values() for size in shape)

    def byte_size(self, sizes: Sizes) -> int:
        shapes = self._shapes(sizes)
        return sum(prod(shapes[spec.name]) * spec.datatype.item_bytes for spec in self._specs)

    def _shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        return {spec.name: shape_at(spec.shape, sizes) for spec in self._specs}


def _integer_range(tensor: Tensor, claimed: ValueRange | None) -> random_inputs.ValueBounds:
    """Return the range that integers are drawn from: the example's own values, and the claimed range as well."""
    values = array(tensor.datatype, tensor.data)
    low, high = int(values.min()), int(values.max())
    if claimed is None:
        return low, high
    info = np.iinfo(values.dtype)
    ends = [low if claimed.low is None else claimed.low, high if claimed.high is None else claimed.high]
    first, last = (min(max(end, int(info.min)), int(info.max)) for end in ends)
    return min(first, low), max(last, high)
