"""Widening: one contract of what two checks of the same archive found, one after the other.

A later check is cut in other places than the first, and so it may miss sizes that the first one found to be right.
"""

from collections.abc import Mapping, Sequence

from tracehouse.contract.contract import OTHER_RANKS_MAX, Batch, Contract, MethodContract, OtherRanks
from tracehouse.contract.coverage import list_uncovered
from tracehouse.contract.dims import shape_at
from tracehouse.contract.memory import Memory
from tracehouse.contract.regions import REGIONS_MAX
from tracehouse.tensors.tensor import TensorSpec

# What both contracts of a method must say alike, so that each one's regions mean the same in the other.
_ALIKE = ("arguments", "inputs", "outputs", "returns", "stochastic", "key_orders")


def widen(before: Contract, now: Contract) -> Contract:
    """Return a contract that accepts all that `before` accepts, and as much as can be stated of what `now` accepts.

    No check has found a wrong answer to what the other accepts: `list_refuted_sizes` says where one has.
    """
    if now.without_fast_paths != before.without_fast_paths or list_refuted_sizes(now, before):
        return before  # without its fast paths, the eager model may be right about other inputs
    united = _unite(before, now)
    candidates = [now] if united is None else [now, united]
    widened = next((one for one in candidates if not accepts_more(before, one)), before)
    return _with_called_of(widened, before, now)


def accepts_more(contract: Contract, other: Contract) -> bool:
    """Whether the contract accepts anything that the other one is not shown to accept.

    An open contract promises nothing of sizes that were never tried, so these do not count.
    """
    return bool(list_uncovered([_close(contract)], [_close(other)]))


def list_refuted_sizes(contract: Contract, other: Contract) -> list[dict[str, int]]:
    """Return the sizes that the contract accepts, and for which the other one knows a wrong answer."""
    return [
        dict(sizes)
        for name, method in other.methods.items()
        if name in contract.methods
        for at_ranks in method.by_ranks
        for sizes in at_ranks.wrong
        if contract.methods[name].takes(_inputs_at(at_ranks, sizes))
    ]


def _close(contract: Contract) -> Contract:
    return contract.model_copy(update={"open": False})


def _inputs_at(method: MethodContract, sizes: Mapping[str, int]) -> list[TensorSpec]:
    return [
        TensorSpec(name=spec.name, datatype=spec.datatype, shape=shape_at(spec.shape, sizes)) for spec in method.inputs
    ]


def _unite(before: Contract, now: Contract) -> Contract | None:
    """Return the contract with the regions of both; None if it cannot be stated."""
    if before.methods.keys() != now.methods.keys():
        return None
    methods = {name: _unite_methods(before.methods[name], method) for name, method in now.methods.items()}
    united = {name: method for name, method in methods.items() if method is not None}
    return now.model_copy(update={"methods": united}) if united.keys() == methods.keys() else None


def _unite_methods(before: MethodContract, now: MethodContract) -> MethodContract | None:
    if any(getattr(before, name) != getattr(now, name) for name in _ALIKE):
        return None
    regions = [*now.regions, *(one for one in before.regions if one not in now.regions)]
    wrong = [*now.wrong, *(one for one in before.wrong if one not in now.wrong)]
    known = [one.ranks for one in now.other_ranks]
    ranks = [*now.other_ranks, *(one for one in before.other_ranks if one.ranks not in known)]
    memory = _larger_memory(before.memory, now.memory)
    is_bounded = any(region.beyond for region in regions)
    if len(regions) > REGIONS_MAX or len(ranks) > OTHER_RANKS_MAX or is_bounded != (memory is not None):
        return None
    changes = {
        "regions": regions,
        "wrong": wrong,
        "called": [],
        "memory": memory,
        "batch": _smaller_batch(before.batch, now.batch),
        "other_ranks": ranks,
    }
    try:
        return MethodContract.model_validate({**dict(now), **changes})
    except ValueError:  # one has a wrong answer where the other has a region
        return None


def _with_called_of(contract: Contract, *checks: Contract) -> Contract:
    """Return the contract with the sizes that the service called in any of these checks, the first one's first."""
    methods = {
        name: _method_with_called_of(method, [check.methods[name] for check in checks if name in check.methods])
        for name, method in contract.methods.items()
    }
    return contract.model_copy(update={"methods": methods})


def _method_with_called_of(method: MethodContract, checks: Sequence[MethodContract]) -> MethodContract:
    own, *others = (_ranks_with_called_of(at_ranks, checks) for at_ranks in method.by_ranks)
    return own.model_copy(update={"other_ranks": [OtherRanks.of(one) for one in others]})


def _ranks_with_called_of(method: MethodContract, checks: Sequence[MethodContract]) -> MethodContract:
    """Do the same for one combination of ranks. A check may have other symbols: its sizes are told by shapes."""
    found = (
        method.sizes_of(_inputs_at(at_ranks, sizes))
        for check in checks
        for at_ranks in check.by_ranks
        if at_ranks.ranks == method.ranks
        for sizes in at_ranks.called
    )
    called: list[dict[str, int]] = []
    called.extend(sizes for sizes in found if sizes is not None and sizes not in called)
    return method.with_called(called)


def _larger_memory(one: Memory | None, other: Memory | None) -> Memory | None:
    """Return the memory that bounds the calls of both; None also if neither bounds the other's."""
    if one is None or other is None:
        return other if one is None else one
    if one.is_within(other):
        return other
    return one if other.is_within(one) else None


def _smaller_batch(one: Batch | None, other: Batch | None) -> Batch | None:
    """Return the batch that holds by both; None if they do not agree."""
    if one is None or other is None or one.model_copy(update={"up_to": other.up_to}) != other:
        return None
    return one if one.up_to <= other.up_to else other
