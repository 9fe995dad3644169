"""Model checks: whether an error came from what the model itself checks, or from an operator given a bad operand."""

import ast
import traceback
from collections.abc import Iterator

from tracehouse.introspection import source_trees, user_lines

# Functions of torch and transformers that raise if a condition does not hold.
_CHECK_FUNCTIONS = (
    "_assert", "_check", "_check_value", "_check_index", "_check_type", "_check_is_size", "_assert_async",
    "_assert_tensor_metadata", "torch_compilable_check",
)  # fmt: skip


def is_check(error: BaseException) -> bool:
    """Whether an `assert`, a `raise` or a checking function raised the error, and not an operator's bad operand."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if user_lines.is_ours(frame.filename):
            continue
        if frame.name in _CHECK_FUNCTIONS or (frame.line or "").startswith(("raise ", "assert ")):
            return True
        if user_lines.is_user(frame.filename):
            return source_trees.is_within(frame.filename, frame.lineno or 0, _find_checks)
    return False


def _find_checks(tree: ast.Module) -> Iterator[ast.stmt | ast.expr]:
    """Yield each statement that checks something."""
    for node in ast.walk(tree):
        match node:
            case ast.Raise() | ast.Assert():
                yield node
            case ast.Call() if source_trees.name_of_call(node) in _CHECK_FUNCTIONS:
                yield node
