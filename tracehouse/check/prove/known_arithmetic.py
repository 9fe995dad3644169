"""Known arithmetic: an operation on symbolic integers that was worked out before gives the number that it gave then.

torch works each one out anew, in Python: the strides and the elements of each tensor that a layer makes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx.experimental.sym_node import SymNode

# Their results follow from the expressions alone. Those of `mod` follow from bounds as well, which change in a run.
_OPERATIONS = ("add", "sub", "mul", "int_floordiv", "eq", "ne", "lt", "le", "gt", "ge", "sym_max", "sym_min")

_Method = Callable[[SymNode, SymNode], SymNode]


@contextmanager
def remember_arithmetic(environment: Any) -> Iterator[None]:
    """Within it, operations on symbolic integers of this environment (a ShapeEnv) are worked out once."""
    known: dict[tuple[Any, ...], SymNode] = {}
    originals: dict[str, _Method] = {name: getattr(SymNode, f"_{name}") for name in _OPERATIONS}
    for name, original in originals.items():
        setattr(SymNode, f"_{name}", _remember(name, original, environment, known))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(SymNode, f"_{name}", original)


def _remember(name: str, original: _Method, environment: Any, known: dict[tuple[Any, ...], SymNode]) -> _Method:
    def run(node: SymNode, other: SymNode) -> SymNode:
        if node.pytype is not int or other.pytype is not int or node.shape_env is not environment:
            return original(node, other)
        # torch lays out a sum that is known to be one of single symbols in another way.
        operands = node.expr, other.expr, node._optimized_summation, other._optimized_summation
        result = known.get((name, *operands))
        if result is None:
            result = known[name, *operands] = original(node, other)
        return result

    return run
