"""Size relations: the conditions that the eager model puts on its inputs' sizes, found by one run on symbols.

The run uses torch's tensors without values (torch._subclasses.FakeTensorMode), and torch's ShapeEnv collects the
conditions on their symbolic sizes. If the model reads a value, the run ends there, and the conditions met until then
count.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext
from torch.utils._sympy.functions import FloorDiv

from tracehouse.check.prove.shape_rules import ShapeRuleMode
from tracehouse.check.prove.symbols import ENVIRONMENT_SETTINGS, Environment, fake_tensor_mode, run_without_values
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, processor_time_limit
from tracehouse.contract.dims import Linear
from tracehouse.differential.budget import PATIENCE
from tracehouse.eager.call import Call
from tracehouse.eager.source import seed_all

Dim = tuple[str, int]  # an input leaf, and the place of the dim
_CONSTANT = ""
# The terms of a sum: the factor of each symbol, and the constant under "". As an equation, the sum is zero.
_Sum = dict[str, int]


@dataclass(frozen=True)
class Relations:
    """The relations between the sizes of a model's inputs, on one path through it. Another path may have fewer."""

    symbols: dict[Dim, str]  # every dim has one
    # For each dim that is not free: a sum of other dims' symbols, one of them divided and rounded, or its only size.
    dims: dict[Dim, Linear | int] = field(default_factory=dict)
    # For each dim that has to be a multiple of a number: the number.
    steps: dict[Dim, int] = field(default_factory=dict)
    # Sizes that the model compares a dim with. At such a size, or beyond it, the model may behave differently.
    edges: dict[Dim, list[int]] = field(default_factory=dict)


def find_size_relations(target: Target, call: Call, within_s: float) -> Relations:
    """Run the eager model on symbols in place of the call's sizes, and return the relations that it met.

    The call should have no dim of size 1, because broadcasting hides relations. The run is stopped after `within_s`
    seconds of processor time. Nothing that the model raises comes out: the conditions met until then are returned.
    """
    environment = Environment(**ENVIRONMENT_SETTINGS)
    mode = fake_tensor_mode(environment)
    symbols: dict[Dim, str] = {}
    try:
        fakes = {name: _fake(mode, name, tensor, symbols) for name, tensor in call.tensors.items()}
        module = target.model.copy_module()
        seed_all(target.eager.seed)
        # If the model raises, the run ends, and the conditions met until then hold.
        rules = ShapeRuleMode()  # type: ignore[no-untyped-call]
        with (
            suppress(Exception, TooSlow),
            processor_time_limit(within_s, patience=PATIENCE),
            run_without_values(mode),
            rules,
        ):
            call.with_tensors(fakes).run(module)
    except Exception:  # noqa: BLE001 - torch has no tensor without values for an input, or cannot copy the model
        return Relations(symbols)
    finally:
        target.model.shared.restore()  # the model's shared state may hold a tensor without values now
    return _solve(symbols, environment)


def _fake(mode: FakeTensorMode, name: str, tensor: torch.Tensor, symbols: dict[Dim, str]) -> torch.Tensor:
    context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC] * tensor.dim(), constraint_sizes=[None] * tensor.dim()
    )
    fake = mode.from_tensor(tensor, symbolic_context=context, source=ConstantSource(name))
    sizes: list[Any] = [*fake.shape]
    symbols |= {(name, place): str(size.node.expr) for place, size in enumerate(sizes)}
    return fake


def _solve(symbols: dict[Dim, str], shapes: Environment) -> Relations:
    order = {symbol: number for number, symbol in enumerate(symbols.values())}
    solutions = _eliminate(_equations(shapes, order), order)
    quotients = {symbol: one for symbol, one in _quotients(shapes, order) if symbol not in solutions}
    dims = {dim: _linear(solutions[symbol]) for dim, symbol in symbols.items() if symbol in solutions}
    dims |= {
        dim: quotients[symbol]
        for dim, symbol in symbols.items()
        if symbol in quotients and quotients[symbol].terms[0][0] not in {*solutions, *quotients}
    }
    steps, edges = dict(_steps(shapes)), _edges(shapes, order)
    return Relations(
        symbols,
        dims,
        {dim: steps[symbol] for dim, symbol in symbols.items() if symbol in steps},
        {dim: edges[symbol] for dim, symbol in symbols.items() if symbol in edges},
    )


def _facts(shapes: Environment) -> Iterator[Any]:
    """Yield the conditions that held during the run, as sympy's relations."""
    yield from (guard.expr for guard in shapes.guards)
    yield from shapes.equations
    yield from (sympy.Eq(symbol, value) for symbol, value in shapes.replacements.items())


def _equations(shapes: Environment, symbols: Mapping[str, int]) -> Iterator[_Sum]:
    for fact in _facts(shapes):
        if isinstance(fact, sympy.Eq) and (equation := _linear_sum(fact.lhs - fact.rhs, symbols)) is not None:
            yield equation


def _linear_sum(total: Any, symbols: Mapping[str, int]) -> _Sum | None:
    """Return the terms of a linear expression in the symbols with integer factors; None for another expression."""
    terms: _Sum = {}
    for term in sympy.Add.make_args(sympy.expand(total)):
        times, rest = term.as_coeff_Mul()
        name = _CONSTANT if rest == 1 else str(rest)
        if not times.is_Integer or (name != _CONSTANT and name not in symbols):
            return None
        terms[name] = terms.get(name, 0) + int(times)
    return terms


def _quotients(shapes: Environment, symbols: Mapping[str, int]) -> Iterator[tuple[str, Linear]]:
    """Yield each symbol that is another one divided and rounded down, as behind convolutions with strides."""
    for fact in _facts(shapes):
        if not isinstance(fact, sympy.Eq):
            continue
        for symbol, times in ((one, fact.lhs.coeff(one) - fact.rhs.coeff(one)) for one in fact.free_symbols):
            rest = fact.lhs - fact.rhs - times * symbol
            if abs(times) == 1 and str(symbol) in symbols and symbol not in rest.free_symbols:
                quotient = _quotient(sympy.expand(-times * rest))
                if quotient is not None and quotient.is_rounded and quotient.terms[0][0] in symbols:
                    yield str(symbol), quotient


def _quotient(expression: Any) -> Linear | None:
    """Return an expression of one symbol that is divided by numbers and rounded down; None for another one.

    A quotient of a quotient is one, and so is the sum of a quotient and a number: `n // 5 // 2` is `n // 10`, and
    `n // 5 - 1` is `(n - 5) // 5`.
    """
    if expression.is_Symbol:
        return Linear(((str(expression), 1),))
    if isinstance(expression, FloorDiv):
        inside, over = _quotient(expression.args[0]), expression.args[1]
        is_known = inside is not None and over.is_Integer and over > 0
        return replace(inside, over=inside.over * int(over)) if inside is not None and is_known else None
    number, rest = expression.as_coeff_Add()
    if number and number.is_Integer:
        inside = _quotient(rest)
        return replace(inside, plus=inside.plus + int(number) * inside.over) if inside is not None else None
    times, rest = expression.as_coeff_Mul()
    inside = _quotient(rest) if rest.is_Symbol and times.is_Integer and times > 0 else None
    return replace(inside, terms=((str(rest), int(times)),)) if inside is not None else None


def _eliminate(equations: Iterable[_Sum], order: Mapping[str, int]) -> dict[str, _Sum]:
    """Solve the equations by Gaussian elimination, and skip an equation that has no integer solution.

    Return the symbols that they determine, each as a sum of symbols that stay free.
    """
    solutions: dict[str, _Sum] = {}
    for equation in equations:
        rest = _substitute(equation, solutions)
        symbol = _choose_symbol(rest, order)
        if symbol is None:
            continue
        sign = -rest.pop(symbol)
        solutions[symbol] = {name: times * sign for name, times in rest.items()}
        solutions = {name: _substitute(value, {symbol: solutions[symbol]}) for name, value in solutions.items()}
    return solutions


def _substitute(terms: _Sum, solutions: Mapping[str, _Sum]) -> _Sum:
    total: _Sum = {}
    for name, times in terms.items():
        for part, part_times in solutions[name].items() if name in solutions else [(name, 1)]:
            total[part] = total.get(part, 0) + times * part_times
    return {name: times for name, times in total.items() if times}


def _choose_symbol(equation: _Sum, order: Mapping[str, int]) -> str | None:
    """Return the symbol for which the equation is solved; None if it has no integer solution.

    A symbol that is the sum of the others comes before one that is a difference, and a later dim before an earlier one.
    If there is only one symbol, the equation is divided by its factor.
    """
    symbols = {name: times for name, times in equation.items() if name != _CONSTANT}
    if len(symbols) == 1:
        ((name, times),) = symbols.items()
        number, rest = divmod(-equation.get(_CONSTANT, 0), times)
        equation[name], equation[_CONSTANT] = 1, -number
        return None if rest else name
    without_factor = [name for name, times in symbols.items() if abs(times) == 1]
    return max(without_factor, key=lambda name: (_is_sum(name, symbols), order[name]), default=None)


def _is_sum(name: str, symbols: Mapping[str, int]) -> bool:
    """Whether the symbol is a sum of the others, none of them subtracted."""
    return all(times * symbols[name] < 0 for other, times in symbols.items() if other != name)


def _linear(value: _Sum) -> Linear | int:
    number = value.get(_CONSTANT, 0)
    terms = tuple((name, times) for name, times in value.items() if name != _CONSTANT)
    return Linear(terms, number) if terms else number


def _edges(shapes: Environment, symbols: Mapping[str, int]) -> dict[str, list[int]]:
    edges: dict[str, list[int]] = {}
    for fact in _facts(shapes):
        if not fact.is_Relational or isinstance(fact, sympy.Eq):
            continue
        terms = _linear_sum(fact.lhs - fact.rhs, symbols) or {}
        names = [name for name, times in terms.items() if name != _CONSTANT and times]
        if len(names) == 1:
            edges.setdefault(names[0], []).append(-terms.get(_CONSTANT, 0) // terms[names[0]])
    return {name: sorted({*sizes}) for name, sizes in edges.items()}


def _steps(shapes: Environment) -> Iterator[tuple[str, int]]:
    """Yield each symbol that has to be a multiple of a number, and the number."""
    for fact in _facts(shapes):
        for remainder in fact.atoms(sympy.Mod) | {part for part in fact.atoms(sympy.Function) if _is_modulo(part)}:
            symbol, number = remainder.args[:2]
            if symbol.is_Symbol and number.is_Integer:
                yield str(symbol), int(number)


def _is_modulo(function: Any) -> bool:
    return type(function).__name__ in ("Mod", "PythonMod")
