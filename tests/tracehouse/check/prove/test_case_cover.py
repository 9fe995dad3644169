"""The cover of a case is exactly the sizes at which its conditions hold, whichever way they are evaluated."""

import operator
from collections.abc import Sequence
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Mod

from tracehouse.check.prove import case_cover
from tracehouse.check.prove.case_cover import find_cover
from tracehouse.check.prove.size_grid import Grid, SizeSet
from tracehouse.check.prove.symbolic_case import CaseResult
from tracehouse.check.prove.symbols import Condition, Symbols

SIZES = range(2, 20)
BEGIN = {"a": 11, "b": 12, "c": 12}
PYTHON_FUNCTIONS = {"FloorDiv": operator.floordiv, "Max": max, "Mod": operator.mod}
A, B, C = sympy.symbols("a b c", integer=True)


def covered(conditions: Sequence[Any]) -> set[tuple[int, ...]]:
    symbols = Symbols(BEGIN, dict.fromkeys(BEGIN, SIZES[-1]))
    ours = {name: symbol for symbol, name in symbols.names.items()}
    written = [one.subs({A: ours["a"], B: ours["b"], C: ours["c"]}) for one in conditions]
    result = CaseResult(
        "proven", BEGIN, dict.fromkeys(BEGIN, SIZES[-1]), symbols, [Condition(one, None) for one in written]
    )
    cover, grid, _ = find_cover(result, Grid(dict.fromkeys(BEGIN, SIZES)), BEGIN)
    found = SizeSet(grid, grid.where(cover.holds))
    return {point for point in product(SIZES, repeat=3) if dict(zip("abc", point, strict=True)) in found}


CONDITIONS = [
    [sympy.Gt(A, 3), sympy.Eq(Mod(B, 4), 0)],
    [sympy.Ne(FloorDiv(A, 4) * FloorDiv(B, 3), 4), sympy.Ge(C, 5)],
    [sympy.Ne(A * B * C, 24), sympy.Ge(3 * A * B * C, 30)],
    [sympy.Eq(A * B * C, 2 * A * B * FloorDiv(C, 2)), sympy.Lt(A * C, B * C)],
    [sympy.Or(sympy.Lt(A * B, C * 5), sympy.Gt(Max(A, B, C), 9))],
    [sympy.Not(sympy.And(sympy.Le(A + B + C, 20), sympy.Ge(A * C, 7), evaluate=False)), sympy.Ge(A, 3)],
]


@pytest.mark.parametrize("combinations", [10**6, 5000], ids=["evaluated", "in boxes where there are many"])
@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
def test_the_cover_is_where_the_conditions_hold(conditions: Sequence[Any], combinations: int) -> None:
    holds = [sympy.lambdify((A, B, C), one, [PYTHON_FUNCTIONS, "math"]) for one in conditions]
    expected = {point for point in product(SIZES, repeat=3) if all(one(*point) for one in holds)}

    with patch.object(case_cover, "CELLS_MAX", combinations):
        assert covered(conditions) == expected


def test_what_is_too_much_to_evaluate_is_covered_about_the_beginning() -> None:
    with patch.object(case_cover, "CELLS_MAX", 100):
        found = covered([sympy.Ne(Mod(A * A, B * C), 1)])

    assert (11, 12, 12) in found
    assert all((a * a) % (b * c) != 1 for a, b, c in found)
    assert 0 < len(found) < len(SIZES) ** 3
