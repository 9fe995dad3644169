"""Set orders: the order in which a model goes through a set. Python hashes texts and objects anew in each process, so
another process has another order, and a trace keeps the one of its own."""

import ast
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tracehouse.check.instrumentation.followed_code import Follower, followed_texts, is_any_of
from tracehouse.introspection import user_lines

_MAKE_SETS = ("set", "frozenset", "keys")  # the names of what makes them, beside literals and comprehensions
_GO_THROUGH = (list, tuple, iter, enumerate, zip, map, filter, sum, deque)
_NUMBERS = (int, float, complex, type(None))  # hashed alike in every process


class SetOrders(Follower):
    """A follower that notes the lines which go through a set of unknown order, and hands it over in another order.

    `turn` returns the items in that order.
    """

    def __init__(self, turn: Callable[[list[Any]], list[Any]]) -> None:
        self.lines: dict[user_lines.Line, None] = {}
        self._turn = turn

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if _goes_through(function):
            args = tuple(map(self.go_through, args))
        return function(*args, **kwargs)

    def go_through(self, values: Iterable[Any]) -> Iterable[Any]:
        if not isinstance(values, set | frozenset) or len(values) < 2 or all(type(one) in _NUMBERS for one in values):
            return values
        if (line := user_lines.line_of_frame(sys._getframe(1))) is not None:
            self.lines[line] = None
        return self._turn(list(values))


def _goes_through(function: Callable[..., Any]) -> bool:
    """Whether the order of what comes out is that of a set among the arguments."""
    if is_any_of(function, _GO_THROUGH):
        return True
    name, owner = getattr(function, "__name__", None), getattr(function, "__self__", None)
    return (name == "join" and type(owner) is str) or (name == "fromkeys" and owner is dict)


def may_go_through_sets() -> bool:
    """Whether a submitted file has signs of a set."""
    return any(map(_has_signs, followed_texts()))


def _has_signs(text: str) -> bool:
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # of submitted code
        return True
    return any(
        isinstance(node, ast.Set | ast.SetComp)
        or (isinstance(node, ast.Name) and node.id in _MAKE_SETS)
        or (isinstance(node, ast.Attribute) and node.attr in _MAKE_SETS)
        for node in nodes
    )


def turned_orders() -> dict[str, Callable[[list[Any]], list[Any]]]:
    """Return other orders by what they are called."""
    return {
        "the other way round": lambda items: items[::-1],
        "from its second item on": lambda items: [*items[1:], items[0]],
    }
