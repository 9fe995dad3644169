"""Counting loops: loops that turn as often as a value says, and keep something of each turn."""

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache

from tracehouse.check.instrumentation.followed_code import keeps_something
from tracehouse.check.instrumentation.tracked_values import Question


def decides_how_often(question: Question) -> bool:
    """Whether a loop ends by the answer to this question."""
    return any(first <= question.line <= last for first, last in _find_ends(question.file))


@lru_cache(maxsize=256)
def _find_ends(file: str) -> list[tuple[int, int]]:
    """Return the first and the last line of each condition by which a loop of a file ends."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While) and keeps_something(node)]
    return [(test.lineno, test.end_lineno or test.lineno) for loop in loops for test in _list_tests(loop)]


def _list_tests(loop: ast.For | ast.While) -> Iterator[ast.expr]:
    if isinstance(loop, ast.While):
        yield loop.test
    for node in (one for statement in loop.body for one in ast.walk(statement)):
        if isinstance(node, ast.If) and any(isinstance(one, ast.Break) for one in (*node.body, *node.orelse)):
            yield node.test
