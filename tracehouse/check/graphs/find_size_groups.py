"""Find size groups: which of the inputs' dims may have other sizes, and which of them only together.

A run with symbols for sizes suggests how the eager model's dims depend on each other. What the eager model answers at
other sizes decides.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, product

from tracehouse.check.graphs.fit_size_groups import fit_size_groups
from tracehouse.check.graphs.name_size_groups import find_fitting, name_size_groups
from tracehouse.check.graphs.size_oracle import (
    Expressions,
    OutOfTime,
    SizeOracle,
    dims_of_symbols,
    is_symbol,
    symbol_of,
)
from tracehouse.check.graphs.size_relations import Dim, Relations, find_size_relations
from tracehouse.check.size_groups import Groups, make_declared_groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.dims import Linear
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.torch_values import resizing

# Distances from the example's size, tried until eager accepts one. The sides of images often have to be multiples of
# a power of two, such as 32 in five halvings.
_NEAR = (1, -1)
_FAR = (2, 4, 8, 16, 32)
# Sizes to begin from in place of 1: one that no other dim has, for two may have equal sizes by chance. 3 comes first,
# because models make two of something more often than three; after it the order is that of what the calls cost.
_IN_PLACE_OF_ONE = (3, 2, 5, 7)
# Sizes above _LARGE of inputs with more elements than _LARGE_ELEMENTS become about _SMALLER. They change by a multiple
# of _PERIOD, so that a model that takes each eighth size, say, takes them too. Chosen.
_LARGE, _LARGE_ELEMENTS, _SMALLER, _PERIOD = 64, 2**15, 64, 32
_SUBSETS_MAX = 5  # with more dims of size 1 than this, not every subset of them is tried
_PAIRS_MAX = 30  # so many pairs of dims are tried together; a choice
_FITTING_SHARE = 0.8  # the fraction of the rest of the budget that fitting to the artifact may take; a choice
_SYMBOLIC_SHARE = 0.5  # the fraction of the budget that the run on symbols may take; a choice


def find_size_groups(target: Target, declarations: Mapping[str, Mapping[str, str]], budget: Budget) -> Groups:
    """Return the declared groups or, if none were declared, those that the eager model's answers show.

    `declarations` has expressions in symbols by input leaf and by the dim's place, as text. The eager model must accept
    the example. Dims for which the budget leaves no time stay at one size. Raises ValueError if the declarations do not
    fit the example.
    """
    oracle = SizeOracle(target, budget)
    return _check_declared(oracle, declarations) if declarations else _search(oracle)


def _check_declared(oracle: SizeOracle, declarations: Mapping[str, Mapping[str, str]]) -> Groups:
    groups = make_declared_groups(oracle.call, declarations)
    for symbol, size in groups.example.items():
        candidates = [
            {symbol: other} for other in _other_sizes(size) if groups.is_affordable(oracle.call, {symbol: other})
        ]
        errors: list[ModelRaised] = []
        is_slow = False
        for sizes in candidates:
            try:
                error = oracle.find_refusal(groups, sizes)
            except TooSlow:
                is_slow = True
                continue
            if error is None:
                groups.steps[symbol] = 1 if is_slow else abs(sizes[symbol] - size)
                break
            errors.append(error)
        if len(errors) == len(candidates) and errors:
            groups.refusals[symbol] = errors[0]
    return groups


def _search(oracle: SizeOracle) -> Groups:
    dims = [*oracle.sizes]
    large = _shrink_large(oracle)
    _avoid_ones(oracle, dims)
    _avoid_ones_in_sums(oracle, dims)
    # A run on symbols takes no longer for large sizes, and meets the conditions that the example meets.
    call = oracle.call_at(*large) if large is not None else oracle.call
    relations = (
        find_size_relations(oracle.target, call, oracle.budget.left_s * _SYMBOLIC_SHARE) if dims else Relations({})
    )
    search = _GroupSearch(oracle, dims, relations)
    try:
        search.run()
    except OutOfTime:
        search.stop()
    return name_size_groups(
        oracle,
        search.expressions,
        steps=search.steps,
        between=search.between,
        apart=search.apart,
        relations=relations,
        untried=search.untried,
        may_be_empty=search.may_be_empty,
    )


def _avoid_ones(oracle: SizeOracle, dims: Sequence[Dim]) -> None:
    """Begin from sizes above 1 where eager accepts them: a dim of 1 is broadcast, which hides what it belongs to."""
    for subset in _subsets_of_ones([dim for dim in dims if oracle.sizes[dim] == 1]):
        expressions = {dim: Linear((("one", 1),)) for dim in subset}
        try:
            _begin_above_one(oracle, expressions)
        except OutOfTime:
            return


def _avoid_ones_in_sums(oracle: SizeOracle, dims: Sequence[Dim]) -> None:
    """Do the same for a dim of 1 that changes only together with a sum, as one new token does with past and mask."""
    for one in [dim for dim in dims if oracle.sizes[dim] == 1 and dim[1] > 0]:
        for total in [dim for dim in dims if oracle.sizes[dim] > 1 and dim[1] > 0][:_PAIRS_MAX]:
            more = Linear((("one", 1),), oracle.sizes[total] - 1)
            try:
                if _begin_above_one(oracle, {one: Linear((("one", 1),)), total: more}):
                    break
            except OutOfTime:
                return


def _begin_above_one(oracle: SizeOracle, expressions: Expressions) -> bool:
    """Begin from a larger size of the symbol `one`, if eager accepts that; return whether it does."""
    others = {size for dim, size in oracle.sizes.items() if dim not in expressions}
    unused = (size for size in _IN_PLACE_OF_ONE if size not in others)
    size = next((one for one in unused if oracle.accepts(expressions, {"one": one})), None)
    if size is not None:
        oracle.begin_from(oracle.groups(expressions).resize(oracle.call, {"one": size}, oracle.target.seed))
    return size is not None


def _subsets_of_ones(ones: Sequence[Dim]) -> Iterator[Sequence[Dim]]:
    """Yield sets of dims of size 1, the largest first: eager may accept a smaller set because the others broadcast."""
    if len(ones) <= _SUBSETS_MAX:
        for count in range(len(ones), 0, -1):
            yield from combinations(ones, count)
        return
    yield ones
    for place in sorted({place for _, place in ones}):
        yield [dim for dim in ones if dim[1] == place]
    yield from ([dim] for dim in ones)


def _shrink_large(oracle: SizeOracle) -> tuple[Expressions, dict[str, int]] | None:
    """Begin from smaller sizes of large inputs of floats, such as images, where the artifact is right on them too.

    Return how to get the large ones back; None if the sizes stay.
    """
    tensors = oracle.call.tensors
    large = {dim for dim, size in oracle.sizes.items() if size > _LARGE and tensors[dim[0]].numel() > _LARGE_ELEMENTS}
    if not large or not all(tensor.is_floating_point() for tensor in tensors.values()):
        return None
    # Dims of one size keep one size, and dims of different sizes keep different ones.
    taken = {size for dim, size in oracle.sizes.items() if dim not in large}
    before, sizes = {f"s{oracle.sizes[dim]}": oracle.sizes[dim] for dim in large}, {}
    for size in sorted(before.values()):
        free = (one for one in range(_SMALLER + size % _PERIOD, size, _PERIOD) if one not in taken)
        sizes[f"s{size}"] = next(free, size)
        taken.add(sizes[f"s{size}"])
    expressions = {dim: Linear(((f"s{oracle.sizes[dim]}", 1),)) for dim in large}
    try:
        if not oracle.accepts(expressions, sizes) or oracle.is_wrong(expressions, sizes):
            return None
    except OutOfTime:
        return None
    oracle.begin_from_small(oracle.call_at(expressions, sizes))
    return expressions, before


class _GroupSearch:
    """What is known so far: `expressions` has the dims that may change size; the other dims are pending."""

    def __init__(self, oracle: SizeOracle, dims: Sequence[Dim], relations: Relations) -> None:
        self._oracle = oracle
        self._dims = dims
        self._relations = relations
        self._symbols = {dim: f"d{number}" for number, dim in enumerate(dims)}
        self.expressions: Expressions = {}
        self.steps: dict[str, int] = {}
        self.between: dict[str, list[int]] = {}
        self.apart: list[tuple[tuple[str, ...], Call]] = []
        self._fitted: Expressions = {}
        self.pending: set[Dim] = set(dims)
        self.untried: set[Dim] = set()
        self.may_be_empty: set[str] = set()

    def run(self) -> None:
        """Confirm what the relations suggest, then try pending dims alone, together and in sums.

        Raises OutOfTime if the budget is spent.
        """
        suggested = self._suggest()
        self._join_leading_dims(suggested)
        self._join_equal_shapes(suggested)
        for symbol in dict.fromkeys(symbol for expression in suggested.values() for symbol, _ in expression.terms):
            self._confirm(symbol, suggested)
        fixed = {dim for dim in self.pending if isinstance(self._relations.dims.get(dim), int)}
        self.pending -= fixed
        try:
            self._confirm_pending()
        finally:
            # The symbolic run took one size for these. It does so too where Python reads a size as an int.
            self.pending |= fixed
        if fixed:
            self._confirm_pending()

    def _confirm_pending(self) -> None:
        """Try pending dims alone, together and in sums, and fit all symbols to the artifact."""
        self._confirm_each(_NEAR)
        for dims in self._pending_of_one_size():
            self._confirm_together(dims, _NEAR)
        self._confirm_sums()
        self._fit()
        self._confirm_each(_FAR)
        for dims in self._pending_of_one_size():
            self._confirm_together(dims, _FAR)
        self._find_lengths()
        self._find_empty()

    def stop(self) -> None:
        """Note that the budget left no time for the pending dims."""
        self.untried |= self.pending
        if self.pending:
            self._oracle.budget.leave_out(
                f"other sizes of {', '.join(sorted({name for name, _ in self.pending}))} were not tried"
            )

    def _suggest(self) -> Expressions:
        """Return the expressions that the symbolic run found; a dim that it did not restrict is a symbol by itself."""
        symbols = {symbol: self._symbols[dim] for dim, symbol in self._relations.symbols.items()}
        suggested = {dim: self._own_symbol(dim) for dim in self._dims if dim not in self._relations.dims}
        for dim, relation in self._relations.dims.items():
            if isinstance(relation, Linear):
                suggested[dim] = relation.renamed(symbols)
        return suggested

    def _own_symbol(self, dim: Dim) -> Linear:
        return Linear(((self._symbols[dim], 1),))

    def _one_symbol(self, dims: Sequence[Dim]) -> Expressions:
        """Return expressions in which all of these dims are the first one's symbol."""
        return {dim: self._own_symbol(dims[0]) for dim in dims}

    def _join_leading_dims(self, suggested: Expressions) -> None:
        """Take the leading dims of the commonest size for one batch, if eager accepts that."""
        sizes = Counter(self._oracle.sizes[dim] for dim in self._dims if dim[1] == 0)
        if not sizes:
            return
        size = sizes.most_common(1)[0][0]
        leading = [dim for dim in self._dims if dim[1] == 0 and self._oracle.sizes[dim] == size]
        for dims in (leading, [dim for dim in leading if self._oracle.call.tensors[dim[0]].dim() > 1]):
            if len(dims) > 1 and self._may_join(dims, suggested) and not self._are_taken_apart(dims, suggested):
                joined = self._one_symbol(dims)
                step = self._find_step({**suggested, **joined}, self._symbols[dims[0]], (*_NEAR, *_FAR))
                if step is not None:
                    self.apart += self._find_wrong_apart(dims, suggested)
                    suggested |= joined
                    return

    def _join_equal_shapes(self, suggested: Expressions) -> None:
        """Take dims of inputs of one shape, such as ids and their mask, for one, if the artifact needs them equal."""
        by_shape: dict[tuple[int, tuple[int, ...]], list[Dim]] = {}
        for dim in self._dims:
            if dim[1] > 0 and dim in suggested and is_symbol(suggested[dim]):
                shape = tuple(self._oracle.target.call.tensors[dim[0]].shape)
                by_shape.setdefault((dim[1], shape), []).append(dim)
        for dims in by_shape.values():
            have_several_symbols = len({symbol_of(suggested[dim]) for dim in dims}) > 1
            may_join = have_several_symbols and self._may_join(dims, suggested)
            if may_join and self._artifact_needs_equal([[dim] for dim in dims], dims):
                suggested |= self._one_symbol(dims)

    def _are_taken_apart(self, dims: Sequence[Dim], suggested: Expressions) -> bool:
        """Whether these dims only happen to have one size, such as as many cameras as points.

        The symbolic run did not need them equal, and the artifact is right where one of them differs.
        """
        groups = _by_expression(dims, suggested)
        return len(groups) > 1 and all(self._oracle.artifact_agrees(*self._one_larger(group)) for group in groups)

    def _find_wrong_apart(self, dims: Sequence[Dim], suggested: Expressions) -> Iterator[tuple[tuple[str, ...], Call]]:
        """Yield a call for each of these dims that changes alone, if eager answers it and the artifact is wrong."""
        groups = _by_expression(dims, suggested)
        larger = [self._one_larger(group) for group in groups] if len(groups) > 1 else []
        for expressions, sizes in larger:
            if self._oracle.is_wrong(expressions, sizes):
                yield (self._symbols[dims[0]],), self._oracle.call_at(expressions, sizes)

    def _may_join(self, dims: Sequence[Dim], suggested: Expressions) -> bool:
        """Whether no other dim depends on the symbols of these dims."""
        symbols = {symbol for dim in dims if dim in suggested for symbol, _ in suggested[dim].terms}
        return all(
            dim in dims
            for dim, expression in suggested.items()
            if any(symbol in symbols for symbol, _ in expression.terms)
        )

    def _confirm(self, symbol: str, suggested: Expressions) -> None:
        """Accept the dims that depend on the symbol, in smaller groups where eager accepts these."""
        members = [
            dim for dim, expression in suggested.items() if any(symbol == other for other, _ in expression.terms)
        ]
        equal = [dim for dim in members if is_symbol(suggested[dim])]
        groups = [] if len(equal) < len(members) else self._split(equal)
        for group in groups:
            self._confirm_together(group, (*_NEAR, *_FAR))
        if groups:
            return
        if members and not self._confirm_step(symbol, suggested, _NEAR):
            _ = self._confirm_with_another(symbol, suggested) or self._confirm_step(symbol, suggested, _FAR)

    def _confirm_step(self, symbol: str, suggested: Expressions, distances: Sequence[int]) -> bool:
        """Whether eager accepts another size of the symbol. If so, the dims that depend on it are accepted."""
        step = self._find_step({**suggested, **self.expressions}, symbol, distances)
        if step is None:
            return False
        self.steps[symbol] = step
        self._accept({dim: one for dim, one in suggested.items() if symbol in [name for name, _ in one.terms]})
        return True

    def _confirm_with_another(self, symbol: str, suggested: Expressions) -> bool:
        """Whether eager accepts another size if the dims of one more symbol change too.

        The symbolic run ends where the model reads a value, before it has seen all that belongs together.
        """
        dims = {dim for dim, one in suggested.items() if symbol in [name for name, _ in one.terms]}
        leaves, places = {leaf for leaf, _ in dims}, {place for _, place in dims}
        size = self._oracle.sizes[dims_of_symbols(suggested)[symbol]] if symbol in dims_of_symbols(suggested) else None
        others = {
            symbol_of(suggested[dim]): dim
            for dim in self._dims
            if dim in suggested and is_symbol(suggested[dim]) and self._oracle.sizes[dim] == size
        }
        alike = [other for other, dim in others.items() if other != symbol and dim[0] not in leaves]
        for other in sorted(alike, key=lambda one: others[one][1] not in places)[:_SUBSETS_MAX]:
            joined = {dim: Linear(((symbol, 1),)) for dim, one in suggested.items() if one == Linear(((other, 1),))}
            without = {dim: one for dim, one in self.expressions.items() if dim not in joined}
            step = self._find_step({**suggested, **without, **joined}, symbol, _NEAR)
            if step is not None and self._may_join([*joined], suggested):
                suggested |= joined
                self.steps[symbol] = step
                self._accept({dim: suggested[dim] for dim in (*dims, *joined)})
                return True
        return False

    def _split(self, dims: Sequence[Dim]) -> list[Sequence[Dim]]:
        """Return smaller groups that eager accepts one by one, though the symbolic run took all dims for one size."""
        if len(dims) == 1 or all(place == 0 for _, place in dims):
            return []
        alone = [[dim] for dim in dims]
        by_place = [[dim for dim in dims if dim[1] == place] for place in sorted({place for _, place in dims})]
        for groups in (alone, by_place):
            if len(groups) > 1 and all(self._find_common_step(group, _NEAR) is not None for group in groups):
                return [] if self._artifact_needs_equal(groups, dims) else [*groups]
        return []

    def _artifact_needs_equal(self, groups: Sequence[Sequence[Dim]], dims: Sequence[Dim]) -> bool:
        """Whether the artifact alone raises where one group differs, and answers where all dims change together.

        Eager repairs some inputs, such as masks that are too long, and a trace of the usual inputs may not. With one
        symbol for all these dims, the artifact can be called at other sizes.
        """
        return any(
            self._artifact_raises(group) and self._is_accepted(group) for group in groups
        ) and not self._artifact_raises(dims)

    def _artifact_raises(self, dims: Sequence[Dim]) -> bool:
        return self._oracle.artifact_raises(*self._one_larger(dims))

    def _is_accepted(self, dims: Sequence[Dim]) -> bool:
        return self._oracle.accepts(*self._one_larger(dims))

    def _one_larger(self, dims: Sequence[Dim]) -> tuple[Expressions, dict[str, int]]:
        return self._one_symbol(dims), {self._symbols[dims[0]]: self._oracle.sizes[dims[0]] + 1}

    def _confirm_each(self, distances: Sequence[int]) -> None:
        for dim in [dim for dim in self._dims if dim in self.pending]:
            self._confirm_together([dim], distances)

    def _pending_of_one_size(self) -> Iterator[Sequence[Dim]]:
        """Yield sets of pending dims that have one size, the likeliest to belong together first."""
        by_size: dict[int, list[Dim]] = {}
        for dim in self._dims:
            if dim in self.pending:
                by_size.setdefault(self._oracle.sizes[dim], []).append(dim)
        for dims in by_size.values():
            for place in sorted({place for _, place in dims}):
                yield [dim for dim in dims if dim[1] == place]
            yield from islice(self._one_dim_of_each(dims), _PAIRS_MAX)
            yield dims
            yield from [*combinations(dims, 2)][:_PAIRS_MAX]

    def _one_dim_of_each(self, dims: Sequence[Dim]) -> Iterator[Sequence[Dim]]:
        """Yield sets with at most one of these dims of each input, the largest first.

        Inputs of one shape, such as keys and values, have the same dim.
        """
        tensors = self._oracle.call.tensors
        places: dict[tuple[int, ...], dict[int, list[Dim]]] = {}
        for dim in dims:
            places.setdefault(tuple(tensors[dim[0]].shape), {}).setdefault(dim[1], []).append(dim)
        for count in range(len(places), 1, -1):
            for shapes in combinations(places.values(), count):
                for chosen in product(*(by_place.values() for by_place in shapes)):
                    yield [*chain(*chosen)]

    def _confirm_together(self, dims: Sequence[Dim], distances: Sequence[int]) -> None:
        if not dims or not self.pending.issuperset(dims):
            return
        step = self._find_common_step(dims, distances)
        if step is not None:
            self.steps[self._symbols[dims[0]]] = step
            self._accept(self._one_symbol(dims))

    def _confirm_sums(self) -> None:
        """Accept pending dims that are sums of others, though the symbolic run did not say so."""
        pending = [dim for dim in self._dims if dim in self.pending]
        sizes = self._oracle.sizes
        for total in pending:
            others = [dim for dim in pending if dim != total]
            for parts in [*[*combinations(others, 2)][:_PAIRS_MAX], *combinations(others, 1)]:
                expression = _sum_of(parts, sizes[total], sizes, self._symbols)
                if expression is not None and self.pending.issuperset((total, *parts)):
                    self._confirm_sum(total, expression, parts)

    def _confirm_sum(self, total: Dim, expression: Linear, parts: Sequence[Dim]) -> None:
        expressions = {total: expression}
        for dim in parts:
            twins = [twin for twin in self._twins(dim) if twin not in (total, *parts)]
            expressions |= self._one_symbol([dim, *twins])
        steps = {symbol: self._find_step(expressions, symbol, _NEAR) for symbol, _ in expression.terms}
        if None not in steps.values():
            self.steps |= {symbol: step for symbol, step in steps.items() if step is not None}
            self._accept(expressions)

    def _twins(self, dim: Dim) -> list[Dim]:
        """Return the same dim of the other inputs of the same shape, such as keys and values, if it is pending."""
        tensors = self._oracle.call.tensors
        alike = [leaf for leaf, tensor in tensors.items() if tensor.shape == tensors[dim[0]].shape]
        return [(leaf, dim[1]) for leaf in alike if leaf != dim[0] and (leaf, dim[1]) in self.pending]

    def _find_common_step(self, dims: Sequence[Dim], distances: Sequence[int]) -> int | None:
        return self._find_step(self._one_symbol(dims), self._symbols[dims[0]], distances)

    def _find_step(self, expressions: Expressions, symbol: str, distances: Sequence[int]) -> int | None:
        """Return the distance from the example's size to the first other size that eager accepts; None without one.

        It is 1 if a nearer size was not refused, but too slow or too large to tell: what was not tried is no step.
        """
        dims = dims_of_symbols(expressions)
        if symbol not in dims:
            return None
        size = self._oracle.sizes[dims[symbol]]
        nearer: list[int] = []
        for other in _other_sizes(size, (*_NEAR, *self._suggested_steps(expressions, symbol), *distances)):
            if self._oracle.accepts(expressions, {symbol: other}):
                refused = all(self._oracle.refuses(expressions, {symbol: one}) for one in nearer)
                return abs(other - size) if refused else 1
            nearer.append(other)
        return None

    def _suggested_steps(self, expressions: Expressions, symbol: str) -> Iterator[int]:
        for dim, step in self._relations.steps.items():
            if dim in expressions and any(symbol == other for other, _ in expressions[dim].terms):
                yield step

    def _fit(self) -> None:
        """Join symbols, or step between sizes, where the eager model answers at more sizes than the artifact does."""
        if self._fitted == self.expressions:
            return
        oracle = self._oracle.from_the_example(_FITTING_SHARE)
        fitting = find_fitting(self.expressions, oracle.sizes)
        fitted = fit_size_groups(oracle, fitting, self.steps, self._relations.steps)
        self.expressions |= fitted.expressions
        self._fitted = dict(self.expressions)
        self.steps = fitted.steps
        self.between |= fitted.between
        self.apart += fitted.apart

    def _find_lengths(self) -> None:
        """Ask for smaller sizes, so that the oracle finds the inputs, such as lengths, that have to change with them.

        Lengths and positions stay valid at larger sizes.
        """
        for symbol, dim in dims_of_symbols(self.expressions).items():
            size, step = self._oracle.sizes[dim], self.steps.get(symbol, 1)
            if any(resizing.may_describe_size(tensor, size) for tensor in self._oracle.call.tensors.values()):
                for smaller in dict.fromkeys((size - step, size - size // (2 * step) * step)):
                    if 0 < smaller < size:
                        self._oracle.accepts(self.expressions, {symbol: smaller})

    def _find_empty(self) -> None:
        """Find the symbols that may be 0, such as that of a past: not every input has them, and an answer remains."""
        groups = self._oracle.groups(self.expressions)
        for symbol in groups.symbols:
            if not groups.is_in_all_inputs(symbol) and self._oracle.answers_in_full(self.expressions, {symbol: 0}):
                self.may_be_empty.add(symbol)

    def _accept(self, expressions: Expressions) -> None:
        self.expressions |= expressions
        self.pending -= expressions.keys()


def _by_expression(dims: Sequence[Dim], suggested: Expressions) -> list[list[Dim]]:
    by_expression: dict[str, list[Dim]] = {}
    for dim in dims:
        by_expression.setdefault(str(suggested.get(dim)), []).append(dim)
    return [*by_expression.values()]


def _other_sizes(size: int, distances: Iterable[int] = (*_NEAR, *_FAR)) -> Iterator[int]:
    """Yield sizes at these distances, and, with distances above 1, twice and half the size.

    Size 1 is left out, for it is broadcast.
    """
    distances = [*distances]
    others = [size + distance for distance in distances]
    if max(distances) > 1:
        others += [2 * size, size // 2]
    yield from (other for other in dict.fromkeys(others) if other > 1 and other != size)


def _sum_of(parts: Sequence[Dim], total: int, sizes: Mapping[Dim, int], symbols: Mapping[Dim, str]) -> Linear | None:
    """Return the likeliest expression of the total in its parts: two added, one doubled, or one more or less."""
    added = sum(sizes[dim] for dim in parts)
    terms = tuple((symbols[dim], 1) for dim in parts)
    if len(parts) == 2:
        return Linear(terms) if added == total else None
    if total == 2 * added:
        return Linear(((symbols[parts[0]], 2),))
    return Linear(terms, total - added) if abs(total - added) == 1 else None
