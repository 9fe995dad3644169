"""Candidates: inputs on which a model may read other values than on its example."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from tracehouse.check.inputs.probes import generate_probes
from tracehouse.check.inputs.thresholds import aim_probes
from tracehouse.eager.call import Call


@dataclass(frozen=True)
class _Threshold:
    number: float


def generate_candidates(example: Call, numbers: Iterable[float]) -> Iterator[tuple[str, Call]]:
    """Yield named calls in the example's shapes: probes of all kinds, in turn with inputs beside these numbers."""
    thresholds = [_Threshold(number) for number in numbers]
    for pair in zip_longest(generate_probes(example, searching=True, deep=True), aim_probes(example, thresholds)):
        yield from (one for one in pair if one is not None)
