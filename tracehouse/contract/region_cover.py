"""Whether the regions of some contracts together cover another contract's regions; if not, which sizes are left out.

The contracts may have different symbols: the sizes of the new ones follow from the dims of the inputs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tracehouse.contract.affine import Affine
from tracehouse.contract.box_cover import Effort, Gap, Limits, Sizes, find_gap
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.dims import format_sizes, is_rounded, parse_dim, symbols_of
from tracehouse.contract.regions import Region, Span

_RANGES_NAMED_MAX = 4
# Fractions are slow.
_STEPS_OF_A_CONDITION = 20
_ZERO, _ONE = Affine({}, Fraction(0)), Affine({}, Fraction(1))
_WITHOUT_SYMBOLS = Region(spans={}, basis="observed")


@dataclass(frozen=True, slots=True)
class _Condition:
    """What must hold where the new contract accepts sizes and answers them alike: `value` is one of `sizes`.

    `value` is an expression of the old contract's symbols. `problem` says in words what follows if it does not hold.
    """

    value: Affine
    sizes: Sizes
    problem: str


class _NeverHolds(Exception):
    """No sizes of the old region meet the condition."""


class _DependsOnSeveral(Exception):
    """Which sizes meet the condition depends on several symbols at once, and is not found out."""


def list_uncovered_sizes(old: MethodContract, new: Sequence[MethodContract], effort: Effort) -> Iterator[str]:
    """Yield in words the sizes that the old contract accepts and none of the new ones.

    All of them have inputs of the same names and ranks. Raises TooManySizes.
    """
    for region in old.regions or [_WITHOUT_SYMBOLS]:
        yield from _uncovered_of_region(old, region, new, effort)


def limits_of_regions(
    old: MethodContract, numbers: Mapping[str, int], new: Iterable[MethodContract], effort: Effort
) -> tuple[list[Limits], bool]:
    """Return the sizes of the old contract's symbols at which each region of the new contracts accepts its inputs.

    `numbers` has the symbols of the old contract that have one size. The second value is whether no region was left
    out: one is if it accepts sizes that are no box. Raises TooManySizes.
    """
    constants = {symbol: Affine({}, Fraction(size)) for symbol, size in numbers.items()}
    limits: list[Limits] = []
    is_whole = True
    for conditions in (each for method in new for each in _conditions_of_regions(old, constants, method)):
        effort.spend(sum(_STEPS_OF_A_CONDITION + 4 * len(condition.sizes) for condition in conditions))
        try:
            limits.append(_limits(conditions))
        except _NeverHolds:
            continue
        except _DependsOnSeveral:
            is_whole = False
    return limits, is_whole


def _uncovered_of_region(
    old: MethodContract, region: Region, new: Iterable[MethodContract], effort: Effort
) -> Iterator[str]:
    box = {symbol: [*map(_range, spans)] for symbol, spans in region.whole_spans.items()}
    numbers = {symbol: sizes[0][0] for symbol, sizes in box.items() if len(sizes) == len(sizes[0]) == 1}
    constants = {symbol: Affine({}, Fraction(size)) for symbol, size in numbers.items()}
    cover: list[Limits] = []
    problems: dict[str, None] = {}
    verb = "no longer accepted"
    for conditions in (each for method in new for each in _conditions_of_regions(old, constants, method)):
        effort.spend(sum(_STEPS_OF_A_CONDITION + 4 * len(condition.sizes) for condition in conditions))
        try:
            cover.append(_limits(conditions))
        except _NeverHolds as problem:
            problems[str(problem)] = None
        except _DependsOnSeveral as problem:
            problems[str(problem)] = None
            verb = "not shown to be accepted"
    gap = find_gap({symbol: sizes for symbol, sizes in box.items() if symbol not in numbers}, cover, effort)
    if gap is not None:
        yield from _describe_gap(gap, old, verb) if cover else problems


def _conditions_of_regions(
    old: MethodContract, constants: Mapping[str, Affine], new: MethodContract
) -> Iterator[list[_Condition]]:
    """Yield for each region of the new contract what must hold of sizes for them to lie in it."""
    symbols, conditions = _follow_symbols(old, constants, new)
    values = {symbol: follows.value for symbol, follows in symbols.items()}
    for spec, was in zip(new.outputs, old.outputs, strict=False):
        for place, (dim, before) in enumerate(zip(spec.shape, was.shape, strict=False)):
            if before != -1:
                problem = f"dim {place} of output {spec.name!r} is {dim}, and was {before}"
                conditions.append(_Condition(_difference(before, constants, dim, values), [range(1)], problem))
    for region in new.regions or [_WITHOUT_SYMBOLS]:
        whole = region.whole_spans
        inside = [
            _Condition(follows.value, [*map(_range, whole[symbol])], follows.problem)
            for symbol, follows in symbols.items()
        ]
        yield conditions + inside


@dataclass(frozen=True, slots=True)
class _Follows:
    """The value of a new contract's symbol, which follows from a dim. `problem`: what it means if it is refused."""

    value: Affine
    problem: str


def _follow_symbols(
    old: MethodContract, constants: Mapping[str, Affine], new: MethodContract
) -> tuple[dict[str, _Follows], list[_Condition]]:
    """Return the new contract's symbols as expressions of the old one's, and what must hold of the other dims.

    A symbol stands alone in some dim, or beside symbols that do; a dim that is rounded does not say what size it has.
    Such a dim must be rounded in the same way in both contracts.
    """
    shapes = {spec.name: spec.shape for spec in old.inputs}
    dims = [
        (dim, was, f"dim {place} of input {spec.name!r}")
        for spec in new.inputs
        for place, (dim, was) in enumerate(zip(spec.shape, shapes[spec.name], strict=True))
    ]
    left = [
        (Affine.of_dim(dim), Affine.of_dim(was).substitute(constants), label)
        for dim, was, label in dims
        if not (is_rounded(dim) or is_rounded(was))
    ]
    found: dict[str, _Follows] = {}
    conditions = []
    while left:
        waiting = []
        for expression, size, label in left:
            values = {symbol: follows.value for symbol, follows in found.items()}
            unknown = [symbol for symbol in expression.terms if symbol not in values]
            if len(unknown) > 1:
                waiting.append((expression, size, label))
            elif unknown:
                rest = size.minus(expression.substitute({**values, unknown[0]: _ZERO}))
                value = rest.divided_by(expression.terms[unknown[0]])
                found[unknown[0]] = _Follows(value, _not_accepted(size, label))
            else:
                left_over = size.minus(expression.substitute(values))
                conditions.append(_Condition(left_over, [range(1)], _not_accepted(size, label)))
        if len(waiting) == len(left):  # no sizes are accepted where a symbol's size does not follow
            conditions += [_Condition(_ONE, [range(1)], _not_shown(label)) for _, _, label in waiting]
            break
        left = waiting
    values = {symbol: follows.value for symbol, follows in found.items()}
    for dim, was, label in dims:
        if is_rounded(dim) or is_rounded(was):
            is_known = symbols_of([dim]) <= values.keys()
            difference = _difference(was, constants, dim, values) if is_known else _ONE
            conditions.append(_Condition(difference, [range(1)], _not_shown(label)))
    return found, conditions


def _difference(
    was: int | str, constants: Mapping[str, Affine], dim: int | str, values: Mapping[str, Affine]
) -> Affine:
    """Return by how much a dim of the old contract is larger; where one is rounded, 0 if both are rounded alike."""
    if is_rounded(dim) or is_rounded(was):
        return _ZERO if _quotient(dim, values) == _quotient(was, constants) else _ONE
    return Affine.of_dim(was).substitute(constants).minus(Affine.of_dim(dim).substitute(values))


def _quotient(dim: int | str, values: Mapping[str, Affine]) -> tuple[Affine, int]:
    """Return what is divided, and by what: a number, if it is known, is divided by 1."""
    inside = Affine.of_dim(dim).substitute(values)
    over = 1 if isinstance(dim, int) else parse_dim(dim).over
    return (inside, over) if inside.number is None else (Affine({}, Fraction(inside.number // over)), 1)


def _not_accepted(size: Affine, dim: str) -> str:
    if size.number is None:
        return _not_shown(dim)
    return f"size {size.number} of {dim} is no longer accepted"


def _not_shown(dim: str) -> str:
    return f"the sizes of {dim} are not shown to be accepted"


def _limits(conditions: Iterable[_Condition]) -> Limits:
    """Return the box of sizes that meet the conditions. Raises _NeverHolds and _DependsOnSeveral."""
    limits: dict[str, list[Sizes]] = {}
    for condition in conditions:
        value = condition.value
        if (number := value.number) is not None:
            if not any(number.denominator == 1 and int(number) in sizes for sizes in condition.sizes):
                raise _NeverHolds(condition.problem)
        elif len(value.terms) == 1:
            [symbol] = value.terms
            limits.setdefault(symbol, []).append([value.solutions(sizes) for sizes in condition.sizes])
        else:
            raise _DependsOnSeveral(condition.problem)
    return Limits(limits)


def _describe_gap(gap: Gap, old: MethodContract, verb: str) -> Iterator[str]:
    for symbol, sizes in gap.alone.items():
        listed = " and ".join(map(_format_range, sizes[:_RANGES_NAMED_MAX]))
        more = len(sizes) - _RANGES_NAMED_MAX
        which = f"{listed} and {more} more" if more > 0 else listed
        is_one = len(sizes) == len(sizes[0]) == 1
        yield (
            f"{'size' if is_one else 'sizes'} {which} of {symbol!r} ({_first_dim(old, symbol)}) "
            f"{'is' if is_one else 'are'} {verb}"
        )
    if not gap.alone:
        yield f"{format_sizes(gap.together)} together are {verb}"


def _first_dim(method: MethodContract, symbol: str) -> str:
    return next(
        f"dim {place} of input {spec.name!r}"
        for spec in method.inputs
        for place, dim in enumerate(spec.shape)
        if symbol in symbols_of([dim])
    )


def _range(span: Span) -> range:
    return range(span.low, span.high + 1, span.step)


def _format_range(sizes: range) -> str:
    return str(Span(low=sizes[0], high=sizes[-1], step=sizes.step))
