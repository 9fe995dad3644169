"""Memory calls: calls of the artifact in which the memory that its tensors take at one time is measured.

They show whether what follows from the shapes of the graph is enough: a kernel may take more for itself.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod

from tracehouse.check.call_memory import record_memory
from tracehouse.check.calls import call_artifact
from tracehouse.check.prove.prover import Proof
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.contract.memory import Memory
from tracehouse.contract.regions import Region
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.size_samples import drop_duplicates, nearest_size
from tracehouse.eager.call import Call

# The sizes of a symbol that are measured, as multiples of the example's, and at least as many elements. Inputs have so
# many elements at most. Chosen: such calls are cheap.
_TIMES_EXAMPLE, _LEAST = (1, 4, 8), (1, 32, 64)
_ELEMENTS_MAX = 2**16
# Beside a symbol that grows, the others have at most this size, or the next one that is proven. Chosen.
_BESIDE_MAX = 4
# What a call needs beside its shapes may grow by no more than this from one size to the next: else it grows in another
# way than they do, and nothing is known of larger sizes.
_GROWTH_MAX = 1.25
# Where a kernel takes more for itself than its results show, it is given half as much again, for sizes that grow
# together: torch's GRU took 1.2 times as much as its shapes, and 1.35 times at many rows.
_MARGIN = 1.5


def measure_memory(target: Target, groups: Groups, proof: Proof, budget: Budget) -> Memory | None:
    """Return what a call needs by its shapes, enlarged to what calls took; None where calls grow in another way."""
    region = next((region for region in proof.regions if region.beyond), None)
    if region is None or proof.memory is None:
        return None
    try:
        return _measure(target, groups, region, proof.memory, budget)
    except (Exception, TooSlow):  # noqa: BLE001 - submitted code: a call that fails measures nothing
        _leave_out(budget, "the memory that they need could not be measured")
        return None


def _measure(target: Target, groups: Groups, region: Region, memory: Memory, budget: Budget) -> Memory | None:
    rows = [*_size_rows(groups, region)]
    taken: dict[tuple[tuple[str, int], ...], int] = {}
    for sizes in drop_duplicates(one for row in rows for one in row):
        if budget.is_spent:
            _leave_out(budget, "there was no time to measure the memory that they need")
            return None
        call = groups.resize(target.call, sizes, target.seed)
        taken[tuple(sizes.items())] = measure_call(target, call)
    first = rows[0][0]
    beside = max(0, taken[tuple(first.items())] - memory.needed_bytes(first))
    factor = 1.0
    for row in rows:
        factors = [max(1.0, (taken[tuple(one.items())] - beside) / max(1, memory.needed_bytes(one))) for one in row]
        if any(after > _GROWTH_MAX * before for before, after in pairwise(factors[1:])):
            _leave_out(budget, "calls take memory that grows faster than the shapes in the graph")
            return None
        factor = max(factor, *factors)
    return memory.enlarged(factor * _MARGIN if factor > 1.0 else 1.0, beside)


def measure_call(target: Target, call: Call) -> int:
    """Return how many bytes the artifact's tensors take at one time in this call, without its inputs and weights.

    Raises RuntimeError if that cannot be measured.
    """
    with record_memory() as memory, time_limit(max(target.call_s, CALL_LIMITS.later_call_s)):
        call_artifact(target.artifact, call, target.eager.seed)
    if memory.most_bytes is None:
        raise RuntimeError("another profiler runs")
    return memory.most_bytes


def _leave_out(budget: Budget, why: str) -> None:
    budget.leave_out(f"sizes beyond those that were called are proven, and not accepted: {why}", is_cut=False)


def _size_rows(groups: Groups, region: Region) -> Iterator[list[Mapping[str, int]]]:
    """Yield a row of growing sizes of each symbol that goes on, beside small sizes of the others."""
    for growing in region.beyond:
        row: list[Mapping[str, int]] = []
        for times, least in zip(_TIMES_EXAMPLE, _LEAST, strict=True):
            sizes = {
                symbol: nearest_size(spans, max(times * groups.example[symbol], least) if symbol == growing
                                     else min(groups.example[symbol], _BESIDE_MAX))
                for symbol, spans in region.spans.items()
            }  # fmt: skip
            if not row or _elements(groups, sizes) <= _ELEMENTS_MAX:
                row.append(sizes)
        yield row


def _elements(groups: Groups, sizes: Mapping[str, int]) -> int:
    return sum(prod(shape) for shape in groups.sizes(sizes).values())
