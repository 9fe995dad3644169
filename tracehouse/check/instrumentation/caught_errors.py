"""Caught errors: the errors that the submitted code would catch where it is running."""

import ast
import builtins
from collections.abc import Collection
from functools import lru_cache
from types import FrameType
from typing import TypeGuard

from tracehouse.check.instrumentation.value_reads import find_owner
from tracehouse.introspection import source_trees, user_lines


def find_caught_error(frame: FrameType | None) -> type[Exception] | None:
    """Return the error that a running function of the user's would catch where it is; None if none catches any."""
    while frame is not None and find_owner(frame.f_code.co_filename) != "ours":
        if frame.f_code.co_filename in user_lines.submitted:
            for first, last, names in _find_handlers(source_trees.parse_file(frame.f_code.co_filename)):
                if first <= frame.f_lineno <= last:
                    return _find_error(names, frame)
        frame = frame.f_back
    return None


def is_suppress(node: ast.expr) -> bool:
    """Whether an expression calls `contextlib.suppress`."""
    return source_trees.name_of_call(node) == "suppress"


def _find_error(names: tuple[str, ...], frame: FrameType) -> type[Exception]:
    for name in names:
        found = frame.f_globals.get(name, getattr(builtins, name, None))
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return Exception


@lru_cache(maxsize=256)
def _find_handlers(tree: ast.Module) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return the lines of each `try` in a file that catches errors, innermost first, and the names of these errors."""
    swallowing = {node.name for node in ast.walk(tree) if _swallows(node)}
    found = [(node, _list_caught(node, swallowing)) for node in ast.walk(tree) if isinstance(node, ast.Try | ast.With)]
    return [
        (node.body[0].lineno, node.body[-1].end_lineno or 0, _name_errors(caught))
        for node, caught in found[::-1]
        if caught
    ]


def _swallows(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.ClassDef]:
    """Whether a function or a class of the file may make context managers that catch errors."""
    if isinstance(node, ast.ClassDef):
        return any(isinstance(one, ast.FunctionDef) and one.name == "__exit__" for one in node.body)
    return isinstance(node, ast.FunctionDef) and any(isinstance(one, ast.Try) and one.handlers for one in node.body)


def _list_caught(node: ast.Try | ast.With, swallowing: Collection[str]) -> list[ast.expr]:
    """Return the expressions that say which errors a statement catches; a bare `except` catches all."""
    everything = ast.Name("Exception", ast.Load())
    if isinstance(node, ast.With):
        contexts = [item.context_expr for item in node.items]
        caught = [one for one in contexts if is_suppress(one)]
        return caught + [everything for one in contexts if source_trees.name_of_call(one) in swallowing]
    leaves = any(isinstance(one, ast.Return | ast.Break | ast.Continue) for one in node.finalbody)
    return [*(one.type or everything for one in node.handlers), *([everything] if leaves else [])]


def _name_errors(caught: list[ast.expr]) -> tuple[str, ...]:
    kinds = [one for kind in caught for one in ast.walk(kind)]
    return tuple(one.id for one in kinds if isinstance(one, ast.Name))
