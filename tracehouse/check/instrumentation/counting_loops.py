"""Counting loops: loops that turn as often as a value says, and keep something of each turn."""

import ast
from collections.abc import Iterator

from tracehouse.check.instrumentation.tracked_values import Question
from tracehouse.introspection import source_trees

_CHANGING = ("append", "add", "extend", "insert", "update", "pop", "remove", "setdefault", "write")


def decides_how_often(question: Question) -> bool:
    """Whether a loop ends by the answer to this question."""
    return source_trees.is_within(question.file, question.line, _find_conditions)


def keeps_something(loop: ast.For | ast.While) -> bool:
    """Whether what a loop does in one turn may be seen after it; else how often it turns does not matter."""
    for node in (one for statement in loop.body for one in ast.walk(statement)):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            return True
    return False


def _find_conditions(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield each condition by which a counting loop ends."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.While) and keeps_something(node):
            yield from _conditions_of(node)


def _conditions_of(loop: ast.For | ast.While) -> Iterator[ast.expr]:
    if isinstance(loop, ast.While):
        yield loop.test
    for node in (one for statement in loop.body for one in ast.walk(statement)):
        if isinstance(node, ast.If) and any(isinstance(one, ast.Break) for one in (*node.body, *node.orelse)):
            yield node.test
