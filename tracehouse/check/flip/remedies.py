"""Remedies: what to write in the place of a line that reads a value out of a tensor, in the words of that line."""

import ast
import linecache
from functools import lru_cache

from tracehouse.check.instrumentation.value_reads import SourceSpan, ValueRead
from tracehouse.introspection.user_lines import Line

_EXPRESSION_MAX_CHARACTERS = 120
_SCRIPT = "put it into a function under @torch.jit.script, or let `mode` be auto"


def suggest_remedy(read: ValueRead) -> str:
    expression = find_expression(read)
    statement = _statement(read)
    if read.depends_on == "sizes":
        return _of_a_size(expression)
    match read.site.kind:
        case "__bool__" | "is_nonzero" | "__contains__" | "equal" | "allclose":
            return _of_a_condition(expression, statement)
        case "in torch" if isinstance(statement, ast.If | ast.While | ast.IfExp):
            return _of_a_condition(expression, statement)
        case "numpy" | "__array__":
            return f"compute with torch in place of numpy: the trace keeps what `{expression}` gave as a constant"
        case "tolist":
            return f"keep the tensor in place of `{expression}`, and compute on all of it at once; or {_SCRIPT}"
        case "__iter__":
            return f"compute on the whole of `{expression}` in place of one row after another; or {_SCRIPT}"
        case "data_ptr" | "__dlpack__":
            return f"keep the tensor itself in place of `{expression}`"
        case "__len__" | "__index__" | "__int__":
            return _of_an_integer(expression, statement)
    return f"keep a tensor in place of `{expression}`, and compute with torch operators"


def suggest_loop_remedy(line: Line | None, otherwise: str) -> str | None:
    """Where that line is the head of a loop over a size."""
    try:
        [statement] = ast.parse(f"{line.source.strip()} pass").body if line is not None else [None]
    except (SyntaxError, ValueError):
        return None
    match statement:
        case ast.For():
            return (
                f"the loop over `{ast.unparse(statement.iter)}` is kept as often as it ran on the example: compute on "
                f"the whole tensor; or {_SCRIPT}{otherwise}"
            )
        case ast.While():
            return f"{_of_a_condition(ast.unparse(statement.test), statement)}{otherwise}"
    return None


def find_expression(read: ValueRead) -> str:
    """What reads, as the source has it; the whole line where that is not known."""
    found = read.site.span and _text(read.site.file, read.site.span)
    return (found or read.line.source)[:_EXPRESSION_MAX_CHARACTERS]


def _of_a_condition(condition: str, statement: ast.AST | None) -> str:
    match statement:
        case ast.While():
            return f"the loop `while {condition}` is kept as often as it ran on the example: {_SCRIPT}"
        case ast.IfExp():
            body, other = ast.unparse(statement.body), ast.unparse(statement.orelse)
            return f"write torch.where({condition}, {body}, {other})"
    return f"write torch.where({condition}, ..., ...) in place of the branch; or {_SCRIPT}"


def _of_an_integer(expression: str, statement: ast.AST | None) -> str:
    match statement:
        case ast.For():
            return (
                f"the loop over `{ast.unparse(statement.iter)}` is kept as often as it ran on the example: compute on "
                f"the whole tensor with a mask; or {_SCRIPT}"
            )
    return (
        f"keep a tensor in place of `{expression}`: compare torch.arange(...) with it for a mask, or index with the "
        f"tensor itself; or {_SCRIPT}"
    )


def _of_a_size(expression: str) -> str:
    return (
        f"`{expression}` follows from a size, which the trace keeps: read sizes as x.shape[0] where they are used, and "
        f"decide nothing by them in Python; or {_SCRIPT}; or send the size that is served as the example"
    )


def _statement(read: ValueRead) -> ast.AST | None:
    """What the expression decides, or how often it is gone round."""
    span = read.site.span
    if span is None:
        return None
    for node in _nodes(read.site.file):
        match node:
            case ast.If() | ast.While() | ast.IfExp() if _holds(node.test, span):
                return node
            case ast.For() if _holds(node.iter, span):
                return node
    return None


def _holds(node: ast.expr, span: SourceSpan) -> bool:
    begins = (node.lineno, node.col_offset) <= (span.line, span.column)
    return begins and (span.end_line, span.end_column) <= (node.end_lineno or 0, node.end_col_offset or 0)


@lru_cache(maxsize=256)
def _nodes(file: str) -> list[ast.AST]:
    """The innermost come first."""
    try:
        return list(ast.walk(ast.parse("".join(linecache.getlines(file)))))[::-1]
    except (SyntaxError, ValueError):
        return []


def _text(file: str, span: SourceSpan) -> str:
    there = [line.encode() for line in linecache.getlines(file)[span.line - 1 : span.end_line]]
    if not there:
        return ""
    there[-1] = there[-1][: span.end_column]
    there[0] = there[0][span.column :]
    return " ".join(b" ".join(there).decode(errors="replace").split())
