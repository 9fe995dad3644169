"""Source trees: the syntax trees of Python files, and the lines of what stands in them."""

import ast
import linecache
from collections.abc import Callable, Iterable
from functools import lru_cache

FindNodes = Callable[[ast.Module], Iterable[ast.stmt | ast.expr]]


def parse_file(file: str) -> ast.Module:
    """Return the syntax tree of a file, which nobody may change; an empty tree if the file cannot be parsed.

    A file may get another text: a source that is submitted later has the same paths, and a module is imported again.
    """
    return _parse("".join(linecache.getlines(file)))


def is_within(file: str, line: int, find_nodes: FindNodes) -> bool:
    """Whether a line of a file belongs to one of the nodes that are found in its tree."""
    return any(first <= line <= last for first, last in _find_lines(parse_file(file), find_nodes))


def name_of_call(node: ast.AST) -> str:
    """Return the name of the function or method that a node calls, without its owner; an empty text without one."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return str(name)
    return ""


@lru_cache(maxsize=256)
def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


@lru_cache(maxsize=1024)
def _find_lines(tree: ast.Module, find_nodes: FindNodes) -> list[tuple[int, int]]:
    """Return the first and the last line of each node that is found."""
    return [(node.lineno, node.end_lineno or node.lineno) for node in find_nodes(tree)]
