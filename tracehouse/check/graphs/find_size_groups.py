"""Grouping: which of the inputs' dims may have other sizes, and which of them together.

A run with symbols for the sizes says how eager's dims hang together; eager's answers to calls of other sizes decide.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from tracehouse.check.calls import call_artifact
from tracehouse.check.graphs import size_relations
from tracehouse.check.graphs.size_relations import Dim, Relations
from tracehouse.check.size_groups import Groups, declared, reasons, shape_of
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.dims import Linear, SymbolicShape
from tracehouse.contract.input_spec import Reason
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.torch_values import resizing

# Beside the example's size, until eager takes one; images are often to be multiples of a number.
_NEAR = (1, -1)
_FAR = (2, 4, 8, 16, 32)
_OTHER_THAN_ONE = (2, 3)
# In the place of 1 rather a size that no other dim has, for dims of one size may be one by chance.
_IN_PLACE_OF_ONE = (3, 5, 7, 11)
_SUBSETS_MAX = 5  # of so many dims of size 1, each subset is tried
_PAIRS_MAX = 30
_SYMBOLIC_SHARE = 0.5  # of the budget

Exprs = dict[Dim, Linear]


def find(target: Target, said: Mapping[str, Mapping[str, str]], budget: Budget) -> Groups:
    """The groups that were declared, where any were, else those that eager shows. Eager has to answer the example.

    Raises ValueError where what was declared does not fit the example.
    """
    eager = _Asked(target, budget)
    return _of_declared(eager, said) if said else _found(eager)


class _OutOfTime(Exception):
    """The budget is spent."""


class _Asked:
    """Eager's answers to calls of other sizes, each once."""

    def __init__(self, target: Target, budget: Budget) -> None:
        self.target = target
        self.budget = budget
        self.call = target.call
        self.telling: dict[str, Dim] = {}  # leaves of integers, and a dim whose size they tell of
        self._known: dict[tuple[tuple[str, tuple[int, ...]], ...], bool] = {}

    @property
    def sizes(self) -> dict[Dim, int]:
        return {
            (name, place): size for name, tensor in self.call.tensors.items() for place, size in enumerate(tensor.shape)
        }

    def begin_from(self, call: Call) -> None:
        """From now on these are the sizes that are changed."""
        self.call = call

    def takes(self, exprs: Exprs, sizes: Mapping[str, int]) -> bool:
        """Raises _OutOfTime."""
        groups = self.groups(exprs)
        if not groups.is_affordable(self.target.call, sizes):
            return False
        key = tuple((name, tuple(shape)) for name, shape in groups.sizes(sizes).items())
        if key not in self._known:
            if self.budget.is_spent:
                raise _OutOfTime
            self._known[key] = self._is_taken(groups, sizes)
        return self._known[key]

    def groups(self, exprs: Exprs) -> Groups:
        shapes = {name: shape_of(exprs, name, [*tensor.shape]) for name, tensor in self.call.tensors.items()}
        example = {root: self.sizes[dim] for root, dim in _roots(exprs).items()}
        telling = {
            leaf: _root(exprs[dim]) for leaf, dim in self.telling.items() if dim in exprs and _is_plain(exprs[dim])
        }
        return Groups(shapes, example, {}, telling=telling)

    def artifact_raises(self, exprs: Exprs, sizes: Mapping[str, int]) -> bool:
        call = self.groups(exprs).resized(self.call, sizes, self.target.seed)
        try:
            call_artifact(self.target.artifact, call, self.target.seed)
        except Exception:  # noqa: BLE001 - TorchScript raises of every kind
            return True
        return False

    def refusal(self, groups: Groups, sizes: Mapping[str, int]) -> ModelRaised | None:
        """What eager says to these sizes. Raises TooSlow."""
        try:
            call = groups.resized(self.call, sizes, self.target.seed)
            within_s = min(self.target.call_s, max(self.budget.left_s, CALL_LIMITS.resized_least_s))
            self.target.eager.answer(call, within_s=within_s)
        except ModelRaised as error:
            return error
        return None

    def _is_taken(self, groups: Groups, sizes: Mapping[str, int]) -> bool:
        try:
            if self.refusal(groups, sizes) is None:
                return True
            for leaf, symbol in self._may_tell(groups, sizes):
                if self.refusal(replace(groups, telling={**groups.telling, leaf: symbol}), sizes) is None:
                    self.telling[leaf] = _dim_of(groups, symbol)
                    return True
        except TooSlow:
            return False
        return False

    def _may_tell(self, groups: Groups, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """Inputs such as lengths, of a size that changes: eager may refuse those that are not changed with it."""
        for symbol in sizes:
            for leaf, tensor in self.call.tensors.items():
                has_symbol = any(isinstance(dim, str) and symbol in dim for dim in groups.shapes[leaf])
                if leaf not in groups.telling and not has_symbol and resizing.tells_of(tensor, groups.example[symbol]):
                    yield leaf, symbol


def _of_declared(eager: _Asked, said: Mapping[str, Mapping[str, str]]) -> Groups:
    groups = declared(eager.call, said)
    for symbol, size in groups.example.items():
        tried = [{symbol: other} for other in _others(size) if groups.is_affordable(eager.call, {symbol: other})]
        errors: list[ModelRaised] = []
        for sizes in tried:
            try:
                error = eager.refusal(groups, sizes)
            except TooSlow:
                continue
            if error is None:
                groups.steps[symbol] = abs(sizes[symbol] - size)
                break
            errors.append(error)
        if len(errors) == len(tried) and errors:
            groups.refused[symbol] = errors[0]
    return groups


def _found(eager: _Asked) -> Groups:
    dims = [*eager.sizes]
    _leave_ones(eager, dims)
    asked = (
        size_relations.find_size_relations(eager.target, eager.call, eager.budget.left_s * _SYMBOLIC_SHARE)
        if dims
        else Relations({})
    )
    search = _Search(eager, dims, asked)
    try:
        search.run()
    except _OutOfTime:
        search.stop()
    return _named(eager, search)


def _leave_ones(eager: _Asked, dims: Sequence[Dim]) -> None:
    """Begin from sizes above 1 wherever eager takes them: a dim of 1 is broadcast, and hides what belongs together."""
    for together in _subsets([dim for dim in dims if eager.sizes[dim] == 1]):
        exprs = {dim: Linear((("one", 1),)) for dim in together}
        try:
            if all(eager.takes(exprs, {"one": size}) for size in _OTHER_THAN_ONE):
                others = {size for dim, size in eager.sizes.items() if dim not in together}
                own = [size for size in _IN_PLACE_OF_ONE if size not in others and eager.takes(exprs, {"one": size})]
                size = next(iter(own), _OTHER_THAN_ONE[-1])
                eager.begin_from(eager.groups(exprs).resized(eager.call, {"one": size}, eager.target.seed))
        except _OutOfTime:
            return


def _subsets(ones: Sequence[Dim]) -> Iterator[Sequence[Dim]]:
    """The largest first: a smaller one may be taken because the others are broadcast. None of which a dim was taken."""
    if len(ones) <= _SUBSETS_MAX:
        for count in range(len(ones), 0, -1):
            yield from combinations(ones, count)
        return
    yield ones
    for place in sorted({place for _, place in ones}):
        yield [dim for dim in ones if dim[1] == place]
    yield from ([dim] for dim in ones)


class _Search:
    """What is known so far: the dims that may change, in symbols; the rest is pending."""

    def __init__(self, eager: _Asked, dims: Sequence[Dim], asked: Relations) -> None:
        self._eager = eager
        self._dims = dims
        self.asked = asked
        self._names = {dim: f"d{number}" for number, dim in enumerate(dims)}
        self.exprs: Exprs = {}
        self.steps: dict[str, int] = {}
        self.pending: set[Dim] = set(dims)
        self.untried: set[Dim] = set()

    def run(self) -> None:
        """Raises _OutOfTime."""
        supposed = self._supposed()
        self._join_leading(supposed)
        self._join_alike(supposed)
        for root in dict.fromkeys(root for expr in supposed.values() for root, _ in expr.terms):
            self._confirm(root, supposed)
        self._confirm_alone(_NEAR)
        for together in self._alike():
            self._confirm_together(together, _NEAR)
        self._confirm_related()
        self._confirm_alone(_FAR)
        for together in self._alike():
            self._confirm_together(together, _FAR)
        self._find_telling()

    def stop(self) -> None:
        """What is pending has not been tried to its end."""
        self.untried |= self.pending
        if self.pending:
            self._eager.budget.leave_out(f"other sizes of {', '.join(sorted({name for name, _ in self.pending}))}")

    def _supposed(self) -> Exprs:
        """As the symbolic run has it; where that came to nothing, each dim by itself."""
        names = {symbol: self._names[dim] for dim, symbol in self.asked.symbols.items()}
        supposed = {dim: Linear(((self._names[dim], 1),)) for dim in self._dims if dim not in self.asked.dims}
        for dim, told in self.asked.dims.items():
            if isinstance(told, Linear):
                supposed[dim] = Linear(tuple((names[symbol], times) for symbol, times in told.terms), told.plus)
        return supposed

    def _join_leading(self, supposed: Exprs) -> None:
        """The leading dims of one size are a batch wherever eager takes them together."""
        sizes = Counter(self._eager.sizes[dim] for dim in self._dims if dim[1] == 0)
        if not sizes:
            return
        size = sizes.most_common(1)[0][0]
        leading = [dim for dim in self._dims if dim[1] == 0 and self._eager.sizes[dim] == size]
        for joined in (leading, [dim for dim in leading if self._is_lead_of_many(dim)]):
            if len(joined) > 1 and self._may_join(joined, supposed):
                exprs = {dim: Linear(((self._names[joined[0]], 1),)) for dim in joined}
                if self._first_taken({**supposed, **exprs}, self._names[joined[0]], (*_NEAR, *_FAR)) is not None:
                    supposed |= exprs
                    return

    def _join_alike(self, supposed: Exprs) -> None:
        """Inputs of one shape, such as ids and their mask, where the artifact cannot tell them apart."""
        by_shape: dict[tuple[int, tuple[int, ...]], list[Dim]] = {}
        for dim in self._dims:
            if dim[1] > 0 and dim in supposed and _is_plain(supposed[dim]):
                by_shape.setdefault((dim[1], tuple(self._eager.target.call.tensors[dim[0]].shape)), []).append(dim)
        for joined in by_shape.values():
            is_open = len({_root(supposed[dim]) for dim in joined}) > 1 and self._may_join(joined, supposed)
            if is_open and self._are_one_to_artifact([[dim] for dim in joined], joined):
                supposed |= {dim: Linear(((self._names[joined[0]], 1),)) for dim in joined}

    def _is_lead_of_many(self, dim: Dim) -> bool:
        return self._eager.call.tensors[dim[0]].dim() > 1

    def _may_join(self, joined: Sequence[Dim], supposed: Exprs) -> bool:
        """Whether nothing else hangs on them."""
        roots = {root for dim in joined if dim in supposed for root, _ in supposed[dim].terms}
        return all(dim in joined for dim, expr in supposed.items() if any(root in roots for root, _ in expr.terms))

    def _confirm(self, root: str, supposed: Exprs) -> None:
        members = [dim for dim, expr in supposed.items() if any(root == other for other, _ in expr.terms)]
        plain = [dim for dim in members if _is_plain(supposed[dim])]
        parts = [] if len(plain) < len(members) else self._parts(plain)
        for part in parts:
            self._confirm_together(part, (*_NEAR, *_FAR))
        if parts:
            return
        taken = self._first_taken({**supposed, **self.exprs}, root, (*_NEAR, *_FAR))
        if taken is None:
            return
        self.steps[root] = taken
        self._accept({dim: supposed[dim] for dim in members})

    def _parts(self, dims: Sequence[Dim]) -> list[Sequence[Dim]]:
        """Smaller groups that eager takes one by one, though they were of one size on the way that was run."""
        if len(dims) == 1 or all(place == 0 for _, place in dims):
            return []
        alone = [[dim] for dim in dims]
        by_place = [[dim for dim in dims if dim[1] == place] for place in sorted({place for _, place in dims})]
        for parts in (alone, by_place):
            if len(parts) > 1 and all(self._takes_together(part, _NEAR) is not None for part in parts):
                return [] if self._are_one_to_artifact(parts, dims) else [*parts]
        return []

    def _are_one_to_artifact(self, parts: Sequence[Sequence[Dim]], dims: Sequence[Dim]) -> bool:
        """Whether it alone raises where one differs and answers where they do not: eager mends some inputs, such as
        masks that are too long, and a trace of the usual ones need not. As one size they can be asked of it."""
        return any(
            self._artifact_raises(part) and self._is_taken(part) for part in parts
        ) and not self._artifact_raises(dims)

    def _artifact_raises(self, dims: Sequence[Dim]) -> bool:
        return self._eager.artifact_raises(*self._one_more(dims))

    def _is_taken(self, dims: Sequence[Dim]) -> bool:
        return self._eager.takes(*self._one_more(dims))

    def _one_more(self, dims: Sequence[Dim]) -> tuple[Exprs, dict[str, int]]:
        root = self._names[dims[0]]
        return {dim: Linear(((root, 1),)) for dim in dims}, {root: self._eager.sizes[dims[0]] + 1}

    def _confirm_alone(self, away: Sequence[int]) -> None:
        for dim in [dim for dim in self._dims if dim in self.pending]:
            self._confirm_together([dim], away)

    def _alike(self) -> Iterator[Sequence[Dim]]:
        """Sets of pending dims of one size, the likeliest first."""
        by_size: dict[int, list[Dim]] = {}
        for dim in self._dims:
            if dim in self.pending:
                by_size.setdefault(self._eager.sizes[dim], []).append(dim)
        for dims in by_size.values():
            for place in sorted({place for _, place in dims}):
                yield [dim for dim in dims if dim[1] == place]
            yield dims
            yield from [*combinations(dims, 2)][:_PAIRS_MAX]

    def _confirm_together(self, dims: Sequence[Dim], away: Sequence[int]) -> None:
        if not dims or not self.pending.issuperset(dims):
            return
        taken = self._takes_together(dims, away)
        if taken is not None:
            root = self._names[dims[0]]
            self.steps[root] = taken
            self._accept({dim: Linear(((root, 1),)) for dim in dims})

    def _confirm_related(self) -> None:
        """Pending dims that others add up to, where no symbolic run has said so."""
        pending = [dim for dim in self._dims if dim in self.pending]
        sizes = self._eager.sizes
        for whole in pending:
            others = [dim for dim in pending if dim != whole]
            for parts in [*[*combinations(others, 2)][:_PAIRS_MAX], *combinations(others, 1)]:
                expr = _sum(parts, sizes[whole], sizes, self._names)
                if expr is not None and self.pending.issuperset((whole, *parts)):
                    self._confirm_sum(whole, expr, parts)

    def _confirm_sum(self, whole: Dim, expr: Linear, parts: Sequence[Dim]) -> None:
        exprs = {whole: expr, **{dim: Linear(((self._names[dim], 1),)) for dim in parts}}
        taken = {root: self._first_taken(exprs, root, _NEAR) for root, _ in expr.terms}
        if None not in taken.values():
            self.steps |= {root: step for root, step in taken.items() if step is not None}
            self._accept(exprs)

    def _takes_together(self, dims: Sequence[Dim], away: Sequence[int]) -> int | None:
        root = self._names[dims[0]]
        return self._first_taken({dim: Linear(((root, 1),)) for dim in dims}, root, away)

    def _first_taken(self, exprs: Exprs, root: str, away: Sequence[int]) -> int | None:
        """How far from the example's size the nearest is that eager takes."""
        size = self._eager.sizes[_roots(exprs)[root]] if root in _roots(exprs) else None
        if size is None:
            return None
        others = _others(size, (*_NEAR, *self._step_asked(exprs, root), *away))
        return next((abs(other - size) for other in others if self._eager.takes(exprs, {root: other})), None)

    def _step_asked(self, exprs: Exprs, root: str) -> Iterator[int]:
        for dim, step in self.asked.steps.items():
            if dim in exprs and any(root == other for other, _ in exprs[dim].terms):
                yield step

    def _find_telling(self) -> None:
        """Lengths and places are legal at larger sizes as they are, and at smaller ones have to follow."""
        for root, dim in _roots(self.exprs).items():
            size, step = self._eager.sizes[dim], self.steps.get(root, 1)
            if any(resizing.tells_of(tensor, size) for tensor in self._eager.call.tensors.values()):
                for smaller in dict.fromkeys((size - step, size - size // (2 * step) * step)):
                    if 0 < smaller < size:
                        self._eager.takes(self.exprs, {root: smaller})

    def _accept(self, exprs: Exprs) -> None:
        self.exprs |= exprs
        self.pending -= exprs.keys()


def _others(size: int, away: Iterable[int] = (*_NEAR, *_FAR)) -> Iterator[int]:
    """Sizes beside the given one; twice and half of it where far ones are asked for. Not 1, which is broadcast."""
    away = [*away]
    others = [size + distance for distance in away]
    if max(away) > 1:
        others += [2 * size, size // 2]
    yield from (other for other in dict.fromkeys(others) if other > 1 and other != size)


def _sum(parts: Sequence[Dim], whole: int, sizes: Mapping[Dim, int], names: Mapping[Dim, str]) -> Linear | None:
    """The likeliest, of the usual ones: the sum of two, twice one, one more or less."""
    total = sum(sizes[dim] for dim in parts)
    terms = tuple((names[dim], 1) for dim in parts)
    if len(parts) == 2:
        return Linear(terms) if total == whole else None
    if whole == 2 * total:
        return Linear(((names[parts[0]], 2),))
    return Linear(terms, whole - total) if abs(whole - total) == 1 else None


def _is_plain(expr: Linear) -> bool:
    return len(expr.terms) == 1 and expr.terms[0][1] == 1 and expr.plus == 0


def _root(expr: Linear) -> str:
    return expr.terms[0][0]


def _roots(exprs: Exprs) -> dict[str, Dim]:
    """A dim that is each symbol."""
    found: dict[str, Dim] = {}
    for dim, expr in exprs.items():
        if _is_plain(expr):
            found.setdefault(_root(expr), dim)
    return found


def _dim_of(groups: Groups, symbol: str) -> Dim:
    return next((name, shape.index(symbol)) for name, shape in groups.shapes.items() if symbol in shape)


def _named(eager: _Asked, search: _Search) -> Groups:
    """In the sizes of the example itself; what does not hold there is left as it is."""
    given = eager.target.call.tensors
    sizes = {(name, place): size for name, tensor in given.items() for place, size in enumerate(tensor.shape)}
    exprs = _holding({dim: search.exprs[dim] for dim in sizes if dim in search.exprs}, sizes)
    names = _names(exprs, given_shapes := {name: tuple(tensor.shape) for name, tensor in given.items()}, eager)
    renamed = {
        dim: Linear(tuple((names[root], times) for root, times in expr.terms), expr.plus) for dim, expr in exprs.items()
    }
    shapes: dict[str, SymbolicShape] = {name: shape_of(renamed, name, [*shape]) for name, shape in given_shapes.items()}

    def why(dim: Dim) -> Reason:
        return "untried" if dim in search.untried or dim in search.exprs else "model"

    return Groups(
        shapes,
        {names[root]: sizes[dim] for root, dim in _roots(exprs).items()},
        reasons(shapes, why),
        steps={names[root]: step for root, step in search.steps.items() if root in names and step > 1},
        edges={symbol: edges for symbol, edges in _edges(search.asked, renamed).items() if edges},
        telling={leaf: _root(renamed[dim]) for leaf, dim in eager.telling.items() if dim in renamed},
    )


def _edges(asked: Relations, exprs: Exprs) -> dict[str, list[int]]:
    """Those of the dims that are a symbol."""
    found: dict[str, list[int]] = {}
    for dim, edges in asked.edges.items():
        if dim in exprs and _is_plain(exprs[dim]):
            known = found.setdefault(_root(exprs[dim]), [])
            known += [edge for edge in edges if edge not in known]
    return found


def _holding(exprs: Exprs, sizes: Mapping[Dim, int]) -> Exprs:
    """Those of which each symbol has one size in the example, and each expression the example's."""
    roots = {root: sizes[dim] for root, dim in _roots(exprs).items()}
    broken = {
        root
        for dim, expr in exprs.items()
        for root, _ in expr.terms
        if any(other not in roots for other, _ in expr.terms) or expr.at(roots) != sizes[dim]
    }
    if not broken:
        return exprs
    return _holding(
        {dim: expr for dim, expr in exprs.items() if not any(root in broken for root, _ in expr.terms)}, sizes
    )


def _names(exprs: Exprs, shapes: Mapping[str, tuple[int, ...]], eager: _Asked) -> dict[str, str]:
    """`batch` where it leads most inputs, what is usual for pictures and for ids, and numbers for the others."""
    roots = _roots(exprs)
    names: dict[str, str] = {}
    leading = Counter(_root(exprs[name, 0]) for name in shapes if (name, 0) in exprs and _is_plain(exprs[name, 0]))
    of_several = [name for name, shape in shapes.items() if shape]
    if leading and any(len(shape) > 1 for shape in shapes.values()):
        root, count = leading.most_common(1)[0]
        if 2 * count >= len(of_several):
            names[root] = "batch"
    for dim, expr in exprs.items():
        usual = _usual_name(dim, shapes[dim[0]], is_float=eager.call.tensors[dim[0]].is_floating_point())
        if _is_plain(expr) and usual and _root(expr) not in names and usual not in names.values():
            names[_root(expr)] = usual
    left = [root for root in roots if root not in names]
    return {**names, **{root: f"n{number}" for number, root in enumerate(left)}}


def _usual_name(dim: Dim, shape: Sequence[int], *, is_float: bool) -> str | None:
    match len(shape), dim[1], is_float:
        case 4, (2 | 3) as place, True if shape[1] <= min(shape[2:]):
            return "height" if place == 2 else "width"
        case (2, 1, False) | (3, 1, True):
            return "seq"
    return None
