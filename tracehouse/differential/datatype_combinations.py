"""Combinations of datatypes: the calls that show whether inputs may have other datatypes than the example's."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from tracehouse.tensors.tensor import Datatype

# So many combinations are tried at most. Chosen: the check makes a trace and a few calls for each.
COMBINATIONS_MAX = 8

Datatypes = Mapping[str, Sequence[Datatype]]  # by input, its own first


def are_few(datatypes: Datatypes) -> bool:
    """Whether all combinations may be tried."""
    return prod(len(one) for one in datatypes.values()) <= COMBINATIONS_MAX


def combine(datatypes: Datatypes) -> list[dict[str, Datatype]]:
    """Return the combinations in which an input has another datatype than its own, each by those inputs."""
    combinations = [
        {name: one for (name, own), one in zip(datatypes.items(), chosen, strict=True) if one is not own[0]}
        for chosen in product(*datatypes.values())
    ]
    return [one for one in combinations if one]
