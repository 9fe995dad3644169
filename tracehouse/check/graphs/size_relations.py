"""Relations: what the eager model asks of its inputs' sizes, as one run of it with symbols for sizes says.

Of a model that reads values the run ends there, and says what was asked until then.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tracehouse.check.prove.composite_operators import whole
from tracehouse.check.prove.shape_rules import Shaping
from tracehouse.check.prove.stopping import stopped_between_operators
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.contract.dims import Linear
from tracehouse.eager.call import Call
from tracehouse.eager.source import seed_all

Dim = tuple[str, int]  # an input leaf, and the place of the dim
Equation = dict[str, int]  # the sum of the symbols, each so many times, and of the number under "", is zero
_NUMBER = ""


@dataclass(frozen=True)
class Relations:
    """`dims` has a Linear of other dims' symbols, or the one size, of each dim that is not free; `symbols` names all.

    They held on one path through the model: another one may ask for less.
    """

    symbols: dict[Dim, str]
    dims: dict[Dim, Linear | int] = field(default_factory=dict)
    steps: dict[Dim, int] = field(default_factory=dict)
    # Sizes that the model compares one with, and so may do another thing at, or beyond.
    edges: dict[Dim, list[int]] = field(default_factory=dict)


def of_eager(target: Target, call: Call, within_s: float) -> Relations:
    """Of the eager model alone, on a call with no dim of size 1, where broadcasting hides what is asked."""
    shapes = ShapeEnv(specialize_zero_one=False, duck_shape=False)
    mode = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
    mode.cache_enabled = False  # of symbols an entry costs more to make than the answer, and fits nothing else
    symbols: dict[Dim, str] = {}
    try:
        fakes = {name: _fake(mode, name, tensor, symbols) for name, tensor in call.tensors.items()}
        module = target.model.fresh()
        seed_all(target.seed)
        # What the model raises ends the run, and what was asked until then holds.
        without_values = stopped_between_operators(), enable_python_dispatcher(), whole(), mode, Shaping()  # type: ignore[no-untyped-call]
        with suppress(Exception, TooSlow), time_limit(within_s), torch.no_grad(), ExitStack() as stack:
            for one in without_values:
                stack.enter_context(one)
            call.with_tensors(fakes).run(module)
    except Exception:  # noqa: BLE001 - of a model or a tensor that torch has no fake of: nothing is known then
        return Relations(symbols)
    finally:
        target.model.shared.restore()  # which may hold a fake tensor now
    return _solved(symbols, shapes)


def _fake(mode: FakeTensorMode, name: str, tensor: torch.Tensor, symbols: dict[Dim, str]) -> torch.Tensor:
    context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC] * tensor.dim(), constraint_sizes=[None] * tensor.dim()
    )
    fake = mode.from_tensor(tensor, symbolic_context=context, source=ConstantSource(name))
    sizes: list[Any] = [*fake.shape]
    symbols |= {(name, place): str(size.node.expr) for place, size in enumerate(sizes)}
    return fake


def _solved(symbols: dict[Dim, str], shapes: ShapeEnv) -> Relations:
    order = {symbol: number for number, symbol in enumerate(symbols.values())}
    known = _eliminated(_equations(shapes, order), order)
    dims = {dim: _linear(known[symbol]) for dim, symbol in symbols.items() if symbol in known}
    steps, edges = dict(_steps(shapes)), _edges(shapes, order)
    return Relations(
        symbols,
        dims,
        {dim: steps[symbol] for dim, symbol in symbols.items() if symbol in steps},
        {dim: edges[symbol] for dim, symbol in symbols.items() if symbol in edges},
    )


def _facts(shapes: ShapeEnv) -> Iterator[Any]:
    """As sympy has them: what was asked on the way and was true."""
    yield from (guard.expr for guard in shapes.guards)
    yield from (sympy.Eq(symbol, value) for symbol, value in shapes.replacements.items())


def _equations(shapes: ShapeEnv, symbols: Mapping[str, int]) -> Iterator[Equation]:
    for fact in _facts(shapes):
        if isinstance(fact, sympy.Eq) and (found := _equation(fact.lhs - fact.rhs, symbols)) is not None:
            yield found


def _equation(total: Any, symbols: Mapping[str, int]) -> Equation | None:
    """None of what is not linear."""
    equation: Equation = {}
    for term in sympy.Add.make_args(sympy.expand(total)):
        times, rest = term.as_coeff_Mul()
        name = _NUMBER if rest == 1 else str(rest)
        if not times.is_Integer or (name != _NUMBER and name not in symbols):
            return None
        equation[name] = equation.get(name, 0) + int(times)
    return equation


def _eliminated(equations: Iterable[Equation], order: Mapping[str, int]) -> dict[str, Equation]:
    """Each symbol that the others give, as their sum."""
    known: dict[str, Equation] = {}
    for equation in equations:
        left = _substituted(equation, known)
        symbol = _isolated(left, order)
        if symbol is None:
            continue
        sign = -left.pop(symbol)
        known[symbol] = {name: times * sign for name, times in left.items()}
        known = {each: _substituted(value, {symbol: known[symbol]}) for each, value in known.items()}
    return known


def _substituted(equation: Equation, known: Mapping[str, Equation]) -> Equation:
    found: Equation = {}
    for name, times in equation.items():
        for part, part_times in known[name].items() if name in known else [(name, 1)]:
            found[part] = found.get(part, 0) + times * part_times
    return {name: times for name, times in found.items() if times}


def _isolated(equation: Equation, order: Mapping[str, int]) -> str | None:
    """The symbol that is told by the others: one that is a sum of them before one that is a rest, later dims first."""
    symbols = {name: times for name, times in equation.items() if name != _NUMBER}
    if len(symbols) == 1:
        ((name, times),) = symbols.items()
        number, rest = divmod(-equation.get(_NUMBER, 0), times)
        equation[name], equation[_NUMBER] = 1, -number
        return None if rest else name
    plain = [name for name, times in symbols.items() if abs(times) == 1]
    return max(plain, key=lambda name: (_is_sum(name, symbols), order[name]), default=None)


def _is_sum(name: str, symbols: Mapping[str, int]) -> bool:
    return all(times * symbols[name] < 0 for other, times in symbols.items() if other != name)


def _linear(value: Equation) -> Linear | int:
    number = value.get(_NUMBER, 0)
    terms = tuple((name, times) for name, times in value.items() if name != _NUMBER)
    return Linear(terms, number) if terms else number


def _edges(shapes: ShapeEnv, symbols: Mapping[str, int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for fact in _facts(shapes):
        if not fact.is_Relational or isinstance(fact, sympy.Eq):
            continue
        equation = _equation(fact.lhs - fact.rhs, symbols) or {}
        names = [name for name, times in equation.items() if name != _NUMBER and times]
        if len(names) == 1:
            found.setdefault(names[0], []).append(-equation.get(_NUMBER, 0) // equation[names[0]])
    return {name: sorted({*edges}) for name, edges in found.items()}


def _steps(shapes: ShapeEnv) -> Iterator[tuple[str, int]]:
    """Of symbols that are to be multiples of a number."""
    for fact in _facts(shapes):
        for remainder in fact.atoms(sympy.Mod) | {part for part in fact.atoms(sympy.Function) if _is_modulo(part)}:
            symbol, number = remainder.args[:2]
            if symbol.is_Symbol and number.is_Integer:
                yield str(symbol), int(number)


def _is_modulo(function: Any) -> bool:
    return type(function).__name__ in ("Mod", "PythonMod")
