"""Every test has an assertion, or calls a helper whose name says that it asserts."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
EXPECTATIONS = ("raises", "warns", "assert_")


def test_every_test_asserts() -> None:
    silent = [
        f"{path.relative_to(TESTS)}::{function.name}"
        for path in TESTS.rglob("test_*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and function.name.startswith("test_")
        and not any(map(is_assertion, ast.walk(function)))
    ]
    assert silent == []


def is_assertion(node: ast.AST) -> bool:
    match node:
        case ast.Assert():
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name.startswith(EXPECTATIONS)
    return False
