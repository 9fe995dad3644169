"""Fit size groups to the artifact, where the eager model answers at more sizes than the artifact does.

The eager model repairs some inputs, such as a mask that is too long, or pads an image to a multiple of its patches. A
trace of the usual inputs may not. If the artifact is wrong where one symbol alone has another size, it may still be
right at each second size, or where other dims change with it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

from tracehouse.check.graphs.size_oracle import (
    Expressions,
    OutOfTime,
    SizeOracle,
    dims_of_symbols,
    is_symbol,
    symbol_of,
)
from tracehouse.check.graphs.size_relations import Dim
from tracehouse.contract.dims import Linear
from tracehouse.eager.call import Call

# Steps that are tried beside those that the symbolic run suggests: images often come in powers of two.
_STEPS = (4, 8, 16, 32)
_EVERY_SECOND = 2  # it is tried for odd sizes too
_ONE_TOKEN = 1  # a mask is often longer than a past by the one new token
_OTHERS_MAX = 6  # so many of the other symbols are tried with one that is wrong alone; a choice


@dataclass
class FittedGroups:
    """The dims that may change size, each as a sum of symbols, as the artifact takes them.

    `steps` has the distance between right sizes by symbol. `between` has sizes by symbol that lie between two steps,
    and `apart` calls, beside their symbols, in which one dim of several that belong together changes alone. The eager
    model answers both, and the artifact is wrong on both.
    """

    expressions: Expressions
    steps: dict[str, int]
    between: dict[str, list[int]] = field(default_factory=dict)
    apart: list[tuple[tuple[str, ...], Call]] = field(default_factory=list)


def fit_size_groups(
    oracle: SizeOracle, expressions: Expressions, steps: Mapping[str, int], suggested: Mapping[Dim, int]
) -> FittedGroups:
    """Return the groups with a step, or fewer symbols, where the artifact is wrong if one symbol alone changes.

    `oracle` calls both models from the example. `suggested` has steps by dim. A symbol for which nothing helps, or for
    which there is no time, stays as it is.
    """
    fitter = _Fitter(oracle, FittedGroups(dict(expressions), dict(steps)), suggested)
    try:
        fitter.run()
    except OutOfTime:
        oracle.budget.leave_out("whether the trace needs some sizes together was not found out")
    return fitter.fitted


class _Fitter:
    """What is fitted so far, and the sizes at which each symbol was wrong alone."""

    def __init__(self, oracle: SizeOracle, fitted: FittedGroups, suggested: Mapping[Dim, int]) -> None:
        self.fitted = fitted
        self._oracle = oracle
        self._suggested = suggested

    def run(self) -> None:
        """Fit each symbol that is wrong alone. Raises OutOfTime if the budget is spent."""
        wrong: dict[str, list[int]] = {}
        for symbol in sorted(self._symbols, key=lambda one: not [*self._suggested_steps(one)]):
            size = next(self._wrong_sizes(symbol), None)
            if size is not None and not self._take_step(symbol, size, self._suggested_steps(symbol)):
                wrong[symbol] = [size]
        for symbol in wrong:
            wrong[symbol] = [*self._wrong_sizes(symbol)]
        for symbol in [one for one in wrong if not self._is_joined(one, wrong)]:
            if symbol in self._symbols:
                self._take_step(symbol, wrong[symbol][0], self._usual_steps(symbol), is_suggested=False)

    @property
    def _symbols(self) -> dict[str, int]:
        """Each symbol with the example's size."""
        return {symbol: self._oracle.sizes[dim] for symbol, dim in dims_of_symbols(self.fitted.expressions).items()}

    def _near(self, symbol: str, expressions: Expressions) -> list[int]:
        """Return the next sizes. Size 1 is left out, for it is broadcast, and squeezed."""
        size, step = self._oracle.sizes[dims_of_symbols(expressions)[symbol]], self.fitted.steps.get(symbol, 1)
        return [size + step, size - step if size - step > 1 else size + 2 * step]

    def _wrong_sizes(self, symbol: str) -> Iterator[int]:
        """Yield the next sizes of the symbol at which the artifact is wrong."""
        expressions = self.fitted.expressions
        yield from (size for size in self._near(symbol, expressions)
                    if self._oracle.is_wrong(expressions, {symbol: size}))  # fmt: skip

    def _is_right_along(self, expressions: Expressions, symbol: str) -> bool:
        """Whether the artifact is right at the next sizes of the symbol that the eager model accepts."""
        near = [{symbol: size} for size in self._near(symbol, expressions)]
        accepted = [sizes for sizes in near if self._oracle.accepts(expressions, sizes)]
        return bool(accepted) and not any(self._oracle.is_wrong(expressions, sizes) for sizes in accepted)

    def _is_joined(self, symbol: str, wrong: Mapping[str, Sequence[int]]) -> bool:
        return symbol not in self._symbols or self._join(symbol, wrong) or self._add(symbol, wrong)

    def _take_step(self, symbol: str, wrong: int, steps: Iterable[int], *, is_suggested: bool = True) -> bool:
        """Whether the artifact is right at each second size, say, and wrong at those between.

        `wrong` is such a size. A step that is not suggested is confirmed by further sizes.
        """
        size, smallest = self._symbols[symbol], self.fitted.steps.get(symbol, 1)
        for step in [step for step in dict.fromkeys(steps) if step > smallest and (wrong - size) % step]:
            others = [] if is_suggested else [size + 2 * step, *[size - step] * (size > step + 1)]
            beside = [] if is_suggested else [size + step + smallest]
            is_right = self._is_right(symbol, size + step) and not any(
                self._is_right(symbol, one) is False for one in others
            )
            if is_right and all(self._is_right(symbol, one) is False for one in beside):
                self.fitted.steps[symbol] = step
                self.fitted.between[symbol] = [wrong, *beside]
                return True
        return False

    def _suggested_steps(self, symbol: str) -> Iterator[int]:
        """Yield the steps of the dims that have the symbol, as the model takes a remainder, and of dims beside them."""
        expressions = self.fitted.expressions
        dims = [dim for dim, one in expressions.items() if symbol in [name for name, _ in one.terms]]
        yield from (step for dim, step in self._suggested.items() if dim in dims)
        leaves = {leaf for leaf, _ in dims}
        for other in self.fitted.between:
            if any(
                leaf in leaves and other in [name for name, _ in one.terms] for (leaf, _), one in expressions.items()
            ):
                yield self.fitted.steps[other]

    def _usual_steps(self, symbol: str) -> list[int]:
        size = self._symbols[symbol]
        divisors = [step for step in (*_STEPS, size // 2, size) if step and size % step == 0]
        return [_EVERY_SECOND, *divisors] if size > 1 else []

    def _is_right(self, symbol: str, size: int) -> bool | None:
        """Whether the artifact is right if this symbol has this size; None if the eager model does not answer."""
        expressions, sizes = self.fitted.expressions, {symbol: size}
        if not self._oracle.accepts(expressions, sizes):
            return None
        return not self._oracle.is_wrong(expressions, sizes)

    def _join(self, symbol: str, wrong: Mapping[str, Sequence[int]]) -> bool:
        """Whether the artifact is right where other symbols of the same size change with this one.

        A symbol that is wrong at smaller sizes alone, such as a mask that may be too long, is joined with wrong ones.
        """
        size, symbols = self._symbols[symbol], self._symbols
        alike = [other for other in symbols if other != symbol and symbols[other] == size]
        alike = [other for other in alike if other in wrong or max(wrong[symbol]) > size]
        alike = sorted(alike, key=lambda other: other not in wrong)[:_OTHERS_MAX]
        for others in chain(([other] for other in alike), [alike] * (len(alike) > 1)):
            if self._try(_one_symbol(symbol, others), wrong):
                return True
        return False

    def _add(self, symbol: str, wrong: Mapping[str, Sequence[int]]) -> bool:
        """Whether the artifact is right where this symbol and others stay parts of a sum, or their sum."""
        for total, expression in self._sums(symbol):
            parts, names = {total: expression}, [total, *(name for name, _ in expression.terms)]
            for name in names[1:]:
                twins = [other for other in self._twins(name) if other in wrong and other not in names]
                parts |= _one_symbol(name, twins)
            if self._try(parts, wrong):
                return True
        return False

    def _is_mended(self, joined: Expressions, together: Sequence[str], wrong: Mapping[str, Sequence[int]]) -> bool:
        """Whether the artifact is right in a call in which a dim has a size with which it was wrong before."""
        dims = dims_of_symbols(self.fitted.expressions)
        was = {dims[name]: wrong.get(name, ()) for name in together}
        for symbol, size in ((name, size) for name in dims_of_symbols(joined) for size in self._near(name, joined)):
            sizes = {**{name: self._oracle.sizes[dim] for name, dim in dims_of_symbols(joined).items()}, symbol: size}
            mended = any(joined[dim].at(sizes) in before for dim, before in was.items())
            if mended and self._oracle.accepts(joined, {symbol: size}):
                return not self._oracle.is_wrong(joined, {symbol: size})
        return False

    def _twins(self, symbol: str) -> list[str]:
        """Return the other symbols of the same dim of inputs of the same shape, such as keys and values."""
        kinds: dict[str, set[tuple[int, ...]]] = {name: set() for name in self._symbols}
        tensors = self._oracle.call.tensors
        for (leaf, place), expression in self.fitted.expressions.items():
            if is_symbol(expression):
                kinds[symbol_of(expression)].add((place, *tensors[leaf].shape))
        return [name for name, kind in kinds.items() if name != symbol and kind == kinds[symbol]]

    def _sums(self, symbol: str) -> Iterator[tuple[str, Linear]]:
        """Yield symbols with the sums that they may be: two other symbols, or one and a number that is a size too."""
        symbols = self._symbols
        tokens = {_ONE_TOKEN, *symbols.values()} - {0}
        for total, size in symbols.items():
            others = [name for name in symbols if name != total]
            for pair in combinations(others, 2):
                if symbol in (total, *pair) and symbols[pair[0]] + symbols[pair[1]] == size:
                    yield total, Linear(tuple((name, 1) for name in pair))
            for name in others:
                if symbol in (total, name) and size - symbols[name] in tokens:
                    yield total, Linear(((name, 1),), size - symbols[name])

    def _try(self, parts: Mapping[str, Linear], wrong: Mapping[str, Sequence[int]]) -> bool:
        """Replace symbols by these expressions if the artifact is right then, also where it was wrong before."""
        kept = tuple(dict.fromkeys(name for expression in parts.values() for name, _ in expression.terms))
        together = [*kept, *parts]
        before = self.fitted.expressions
        dims = {dim: one for dim, one in before.items() if {name for name, _ in one.terms} & parts.keys()}
        if not all(is_symbol(one) for one in dims.values()):
            return False
        joined = before | {dim: parts[one.terms[0][0]] for dim, one in dims.items()}
        if not all(self._is_right_along(joined, name) for name in kept) or not self._is_mended(joined, together, wrong):
            return False
        apart = [(name, size) for name in wrong if name in together for size in wrong[name][:1]]
        self.fitted.apart += [(kept, self._oracle.call_at(before, {name: size})) for name, size in apart]
        self.fitted.expressions = joined
        return True


def _one_symbol(symbol: str, others: Sequence[str]) -> dict[str, Linear]:
    return dict.fromkeys(others, Linear(((symbol, 1),)))
