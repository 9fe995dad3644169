"""Input bytes: how large the inputs of a call can be that a contract accepts."""

from collections.abc import Mapping

from tracehouse.contract.contract import MethodContract
from tracehouse.contract.dims import shape_at
from tracehouse.tensors.tensor import TensorSpec


def largest_inputs_bytes(contract: MethodContract) -> int:
    """Return the bytes of the inputs of the largest call at sizes that were called: sizes beyond are left out."""
    return max(_largest_bytes(at_ranks) for at_ranks in contract.by_ranks)


def is_bounded(contract: MethodContract) -> bool:
    """Whether the contract accepts no sizes beyond those that were called."""
    return not any(region.beyond for at_ranks in contract.by_ranks for region in at_ranks.regions)


def _largest_bytes(contract: MethodContract) -> int:
    ends = [{symbol: spans[-1].high for symbol, spans in region.spans.items()} for region in contract.regions]
    return max(_bytes_at(contract, sizes) for sizes in [*ends, contract.example_sizes or {}])


def _bytes_at(contract: MethodContract, sizes: Mapping[str, int]) -> int:
    widest = {spec.name: max(spec.accepted_datatypes, key=lambda one: one.item_bytes) for spec in contract.inputs}
    return sum(
        TensorSpec(name=spec.name, datatype=widest[spec.name], shape=shape_at(spec.shape, sizes)).byte_size
        for spec in contract.inputs
    )
