"""Combinations of datatypes: the calls that show whether inputs may have other datatypes than the example's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from tracehouse.tensors.tensor import Datatype

# So many combinations are tried at most. Chosen: the check makes a trace and a few calls for each.
COMBINATIONS_MAX = 8

Datatypes = Mapping[str, Sequence[Datatype]]  # by input, its own first
Combination = Mapping[str, Datatype]  # by those inputs that have another datatype than their own


def find_accepted(candidates: Datatypes, hold: Callable[[Sequence[Combination]], bool]) -> dict[str, list[Datatype]]:
    """Return the datatypes that inputs may have in all combinations, by the inputs that may have several.

    Each datatype is added to those before it if all combinations that it adds `hold`. A datatype with which there would
    be too many combinations is left out.
    """
    accepted: dict[str, list[Datatype]] = {}
    for name, (own, *others) in candidates.items():
        for one in others:
            wider = {**accepted, name: [*accepted.get(name, [own]), one]}
            if _are_few(wider) and hold([added for added in combine(wider) if added.get(name) is one]):
                accepted = wider
    return accepted


def _are_few(datatypes: Datatypes) -> bool:
    return prod(len(one) for one in datatypes.values()) <= COMBINATIONS_MAX


def combine(datatypes: Datatypes) -> Iterator[Combination]:
    """Yield the combinations in which an input has another datatype than its own."""
    for chosen in product(*datatypes.values()):
        others = {name: one for (name, own), one in zip(datatypes.items(), chosen, strict=True) if one is not own[0]}
        if others:
            yield others
