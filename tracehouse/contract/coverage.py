"""Coverage: whether artifacts accept all that others accept and answer in the same form; if not, what is missing.

What cannot be shown to be covered counts as not covered.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from tracehouse.byte_units import MIB
from tracehouse.contract.box_cover import Effort, TooManySizes
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.dims import format_shape
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.key_orders import KeyOrder
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.region_cover import list_uncovered_sizes
from tracehouse.contract.structure import (
    Argument,
    BakedLeaf,
    DictNode,
    FixedLeaf,
    ListNode,
    NamedTupleNode,
    Structure,
    TupleNode,
    find_baked_difference,
    items_of,
    leaves_of,
    same_arguments,
)

# A call may need so many times the memory of before, and a MiB more, where a contract is still as wide. Chosen.
_MEMORY_TIMES = 2


def list_uncovered(old: Sequence[Contract], new: Sequence[Contract]) -> list[str]:
    """Return in words what the old artifacts accept and the new ones are not shown to accept; nothing if they cover it.

    Both are all artifacts of one version for one device: more than one if there are buckets.
    """
    effort = Effort()
    methods = sorted({name for contract in old for name in contract.methods})
    uncovered = {
        f"method {name!r}: {what}" if methods != ["forward"] else what: None
        for name in methods
        for what in _uncovered_of_method(name, old, new, effort)
    }
    if old[0].open and not _treat_untried_sizes_alike(old, new):
        uncovered["sizes that were never tried, which were answered with a warning, are refused"] = None
    return [*uncovered]


def _uncovered_of_method(name: str, old: Iterable[Contract], new: Sequence[Contract], effort: Effort) -> Iterator[str]:
    if any(name not in contract.methods for contract in new):
        yield "it is gone"
        return
    now = [contract.methods[name] for contract in new]
    for contract in old:
        if (before := contract.methods.get(name)) is None:
            continue
        differences = dict.fromkeys(what for method in now for what in _differences(before, method))
        yield from differences
        if differences:
            return
        try:
            yield from _uncovered_sizes(before, now, effort)
            yield from _uncovered_ranks(before, now, effort)
        except TooManySizes:
            yield "the contracts have too many sizes to be compared"
            return
        yield from (what for method in now for what in _batch_differences(before, method))
        yield from (what for method in now for what in _memory_differences(before, method))


def _uncovered_sizes(old: MethodContract, new: Sequence[MethodContract], effort: Effort) -> list[str]:
    """Return the sizes that the new contracts lack, or if they lack none, those that need enough memory now."""
    return [*list_uncovered_sizes(old, new, effort)] or [*_newly_bounded_sizes(old, new, effort)]


def _uncovered_ranks(old: MethodContract, new: Sequence[MethodContract], effort: Effort) -> Iterator[str]:
    """Yield what the old contract accepts in other ranks than its example's. Raises TooManySizes."""
    for before in old.by_ranks[1:]:
        shapes = " with ".join(f"{spec.name!r} as {format_shape(spec.shape)}" for spec in before.inputs)
        now = [each for method in new for each in method.by_ranks if each.ranks == before.ranks]
        if len(now) < len(new):
            yield f"{shapes} is no longer accepted"
            continue
        differences = dict.fromkeys(what for method in now for what in _differences(before, method))
        uncovered = differences or [
            *_uncovered_sizes(before, now, effort),
            *(what for method in now for what in _batch_differences(before, method)),
            *(what for method in now for what in _memory_differences(before, method)),
        ]
        yield from (f"of {shapes}: {what}" for what in uncovered)


def _differences(old: MethodContract, new: MethodContract) -> Iterator[str]:
    """Yield what differs whatever the sizes are; sizes are compared if nothing does.

    Any of the buckets may be asked, so all of them are compared.
    """
    before, now = _by_name(old.inputs), _by_name(new.inputs)
    yield from (f"input {name!r} is gone" for name in before if name not in now)
    yield from (f"input {name!r} is required" for name in now if name not in before)
    for name, spec in before.items():
        if name in now:
            yield from _input_differences(spec, now[name])
    yield from _argument_differences(old.arguments, new.arguments)
    yield from _order_differences(old, new)
    if new.stochastic and not old.stochastic:
        yield "the same inputs get another answer each time, because it draws random numbers"
    yield from _output_differences(old, new)
    yield from _returns_differences(old.returns, new.returns)


def _by_name(specs: Iterable[InputSpec]) -> dict[str, InputSpec]:
    return {spec.name: spec for spec in specs}


def _input_differences(old: InputSpec, new: InputSpec) -> Iterator[str]:
    if not set(old.accepted_datatypes) <= set(new.accepted_datatypes):
        now, before = (" or ".join(spec.accepted_datatypes) for spec in (new, old))
        yield f"input {old.name!r} is {now}, and was {before}"
    elif len(old.shape) != len(new.shape):
        yield f"input {old.name!r} has {len(new.shape)} dims, and had {len(old.shape)}"
    elif new.values is not None:
        low, high = _values(old)
        if not new.values.contains(low, high):
            allowed = _format_values(*_values(new))
            yield f"values of input {old.name!r} may be {allowed}, and might be {_format_values(low, high)}"


def _values(spec: InputSpec) -> tuple[int, int]:
    """Return the least and the greatest integer that are accepted."""
    limits = [np.iinfo(datatype.value.lower()) for datatype in spec.accepted_datatypes]
    low = None if spec.values is None else spec.values.low
    high = None if spec.values is None else spec.values.high
    least, greatest = min(int(one.min) for one in limits), max(int(one.max) for one in limits)
    return least if low is None else low, greatest if high is None else high


def _format_values(low: int, high: int) -> str:
    return f"{low} to {high}"


def _argument_differences(old: Sequence[Argument], new: Sequence[Argument]) -> Iterator[str]:
    """Yield the arguments that a call of the old artifact may name or place, and that are others now."""
    for place, argument in enumerate(old):
        now = new[place] if place < len(new) else None
        if now is None or now.name != argument.name:
            yield f"argument {place + 1} is not {argument.name!r} any more"
            continue
        before, after = ([Argument(name=one.name, structure=_plain(one.structure))] for one in (argument, now))
        if same_arguments(before, after):
            continue
        difference = find_baked_difference(before, after)
        if difference is None:
            yield f"argument {argument.name!r} nests in another way"
        else:
            path, was, is_ = difference
            yield f"{path!r} is {is_}, and was {was}"


def _order_differences(old: MethodContract, new: MethodContract) -> Iterator[str]:
    for path, keys in new.key_orders.items():
        before = old.key_orders.get(path)
        if before != keys:
            order = KeyOrder(path=path, keys=keys)
            came = "in any order" if before is None else f"in the order {KeyOrder(path=path, keys=before)}"
            yield f"{order.subject} must come in the order {order}, and came {came}"


def _plain(structure: Structure) -> Structure:
    """Return the structure as a client sees it: fixed values as baked ones, and the keys of dicts in one order."""
    match structure:
        case FixedLeaf():
            return BakedLeaf(baked=structure.fixed)
        case ListNode():
            return ListNode(list=[_plain(item) for item in structure.list])
        case TupleNode() | NamedTupleNode():
            return TupleNode(tuple=[_plain(item) for _, item in items_of(structure)])
        case DictNode():
            return DictNode(mapping={key: _plain(structure.mapping[key]) for key in sorted(structure.mapping)})
    return structure


def _output_differences(old: MethodContract, new: MethodContract) -> Iterator[str]:
    for place, spec in enumerate(old.outputs):
        now = new.outputs[place] if place < len(new.outputs) else None
        if now is None or now.name != spec.name:
            yield f"output {place + 1} is not {spec.name!r} any more"
        elif (changed := _datatype_difference(old, spec, now)) is not None:
            yield changed
        elif len(now.shape) != len(spec.shape) and any(dim != -1 for dim in spec.shape):
            yield f"output {spec.name!r} has {len(now.shape)} dims, and had {len(spec.shape)}"
        else:
            for at, (before, after) in enumerate(zip(spec.shape, now.shape, strict=False)):
                if after == -1 and before != -1:
                    yield f"dim {at} of output {spec.name!r} is not known any more, and was {before}"


def _datatype_difference(old: MethodContract, was: OutputSpec, now: OutputSpec) -> str | None:
    """Return in words for which datatypes of the inputs that were accepted an output has another datatype now."""
    accepted = {spec.name: spec.accepted_datatypes for spec in old.inputs}
    followed = [
        name for name in dict.fromkeys((was.datatype_of, now.datatype_of)) if name is not None and name in accepted
    ]
    for chosen in product(*(accepted[name] for name in followed)):
        given = dict(zip(followed, chosen, strict=True))
        before = was.datatype if was.datatype_of is None else given[was.datatype_of]
        after = now.datatype if now.datatype_of is None else given.get(now.datatype_of, now.datatype)
        if before is not after:
            where = " and".join(f" if {name} is {one}" for name, one in given.items())
            return f"output {was.name!r} is {after}{where}, and was {before}"
    return None


def _returns_differences(old: Structure, new: Structure) -> Iterator[str]:
    """Yield how what is returned nests otherwise, or has another constant, which a client may read."""
    before, now = dict(leaves_of(old, "output")), dict(leaves_of(new, "output"))
    constants = [
        (path, leaf, now[path])
        for path, leaf in before.items()
        if isinstance(leaf, BakedLeaf) and isinstance(now.get(path), BakedLeaf)
    ]
    # As text: to Python, 4 equals 4.0, and 1 equals True.
    changed = [path for path, first, second in constants if first.model_dump_json() != second.model_dump_json()]
    if changed:
        yield f"the constant {changed[0]!r} is another one"
    elif _plain(old) != _plain(new):
        yield "what is returned nests in another way"


def _batch_differences(old: MethodContract, new: MethodContract) -> Iterator[str]:
    if old.batch is None:
        return
    if new.batch is None:
        yield "rows are not known to be independent any more"
    elif (old.batch.inputs, old.batch.outputs) != (new.batch.inputs, new.batch.outputs):
        yield "rows are known to be independent in other dims"
    elif new.batch.up_to < old.batch.up_to:
        yield f"one call may have {new.batch.up_to} rows, and might have {old.batch.up_to}"


def _memory_differences(old: MethodContract, new: MethodContract) -> Iterator[str]:
    """Yield that sizes beyond the called ones need far more memory, so that a limit refuses many that it took before.

    What calls take is measured, and differs a little from one check to the next.
    """
    if old.memory is None or new.memory is None:
        return
    needed = old.memory.enlarged(_MEMORY_TIMES, MIB).model_copy(update={"elements": new.memory.elements})
    if not new.memory.is_within(needed):
        yield f"a call of large sizes may need {new.memory}, and needed {old.memory}"


def _newly_bounded_sizes(old: MethodContract, new: Sequence[MethodContract], effort: Effort) -> Iterator[str]:
    """Yield the sizes that the old contract accepts whatever memory they need, and the new ones only with enough."""
    if any(method.memory is not None for method in new):
        always = list_uncovered_sizes(_without_beyond(old), [_without_beyond(method) for method in new], effort)
        yield from (f"{what} whatever memory they need" for what in always)


def _without_beyond(method: MethodContract) -> MethodContract:
    regions = [region.within_calls for region in method.regions]
    return method.model_copy(update={"regions": regions, "memory": None})


def _treat_untried_sizes_alike(old: Sequence[Contract], new: Sequence[Contract]) -> bool:
    """Whether the new contracts are open, as the old ones are, and differ in nothing that an open one looks at."""
    return (
        all(contract.open for contract in new)
        and len(old) == len(new)
        and all(
            name in after.methods and _are_alike_if_open(method, after.methods[name])
            for before, after in zip(old, new, strict=True)
            for name, method in before.methods.items()
        )
    )


def _are_alike_if_open(old: MethodContract, new: MethodContract) -> bool:
    now = _by_name(new.inputs)
    if old.other_ranks and old.other_ranks != new.other_ranks:
        return False
    return all(sizes in old.wrong for sizes in new.wrong) and all(
        (spec.shape, spec.example, spec.fixed) == (now[spec.name].shape, now[spec.name].example, now[spec.name].fixed)
        for spec in old.inputs
        if spec.name in now
    )
