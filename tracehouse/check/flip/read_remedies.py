"""Read remedies: what to write in place of a line that reads a value out of a tensor, in the words of that line."""

import ast
import linecache
from functools import lru_cache

from tracehouse.check.instrumentation.value_reads import SourceSpan, ValueRead
from tracehouse.findings.remedies import LET_MODE_BE_AUTO
from tracehouse.introspection import source_trees
from tracehouse.introspection.user_lines import Line

_EXPRESSION_MAX_CHARACTERS = 120
_SCRIPT = f"put this code into a function under @torch.jit.script; {LET_MODE_BE_AUTO}"


def suggest_remedy(read: ValueRead) -> str:
    """Return what to write in place of a read, as a clause that quotes the user's expression."""
    expression = find_expression(read)
    statement = _find_statement(read)
    if read.depends_on == "sizes":
        return _suggest_for_size(expression)
    match read.site.kind:
        case "__bool__" | "is_nonzero" | "__contains__" | "equal" | "allclose":
            return _suggest_for_condition(expression, statement)
        case "in torch" if isinstance(statement, ast.If | ast.While | ast.IfExp):
            return _suggest_for_condition(expression, statement)
        case "numpy" | "__array__":
            return f"compute with torch instead of numpy: the trace keeps the result of `{expression}` as a constant"
        case "tolist":
            return f"keep the tensor in place of `{expression}`, and compute on all of it at once; or {_SCRIPT}"
        case "__iter__":
            return f"compute on the whole of `{expression}` instead of one row after another; or {_SCRIPT}"
        case "data_ptr" | "__dlpack__":
            return f"pass the tensor itself in place of `{expression}`"
        case "__len__" | "__index__" | "__int__":
            return _suggest_for_integer(expression, statement)
        case "item" if (compared := _find_comparison(read, statement)) is not None:
            return _suggest_for_condition(compared, statement)
    return f"keep a tensor in place of `{expression}`, and compute with torch operators"


def suggest_loop_remedy(line: Line | None) -> str | None:
    """Return what to write in place of a loop over a size; None if the line begins no loop."""
    try:
        [statement] = ast.parse(f"{line.source.strip()} pass").body if line is not None else [None]
    except (SyntaxError, ValueError):
        return None
    match statement:
        case ast.For():
            return _suggest_for_loop(statement, "compute on the whole tensor")
        case ast.While():
            return _suggest_for_condition(ast.unparse(statement.test), statement)
    return None


def find_expression(read: ValueRead) -> str:
    """Return the expression that reads, as it stands in the source; the whole line if its place is not known.

    A long expression is cut at _EXPRESSION_MAX_CHARACTERS.
    """
    text = read.site.span and _read_text(read.site.file, read.site.span)
    return (text or read.line.source)[:_EXPRESSION_MAX_CHARACTERS]


def _suggest_for_condition(condition: str, statement: ast.AST | None) -> str:
    match statement:
        case ast.While():
            return f"the trace repeats the loop `while {condition}` as often as it ran on the example: {_SCRIPT}"
        case ast.IfExp():
            body, other = ast.unparse(statement.body), ast.unparse(statement.orelse)
            return f"write torch.where({condition}, {body}, {other})"
    return f"write torch.where({condition}, ..., ...) in place of the branch; or {_SCRIPT}"


def _suggest_for_loop(loop: ast.For, instead: str) -> str:
    over = ast.unparse(loop.iter)
    return f"the trace repeats the loop over `{over}` as often as it ran on the example: {instead}; or {_SCRIPT}"


def _suggest_for_integer(expression: str, statement: ast.AST | None) -> str:
    match statement:
        case ast.For():
            return _suggest_for_loop(statement, "compute on the whole tensor with a mask")
    return (
        f"keep a tensor in place of `{expression}`: compare torch.arange(...) with it for a mask, or index with the "
        f"tensor itself; or {_SCRIPT}"
    )


def _suggest_for_size(expression: str) -> str:
    return (
        f"`{expression}` follows from a size, and the trace keeps it: read sizes as x.shape[0] where they are used, "
        f"and do not branch on them in Python; or {_SCRIPT}; or send an example of the size that you are going to serve"
    )


def _find_statement(read: ValueRead) -> ast.AST | None:
    """Return the `if`, `while` or conditional expression that the read decides, or the `for` whose length it is."""
    span = read.site.span
    if span is None:
        return None
    for node in _list_nodes(source_trees.parse_file(read.site.file)):
        match node:
            case ast.If() | ast.While() | ast.IfExp() if _contains(node.test, span):
                return node
            case ast.For() if _contains(node.iter, span):
                return node
    return None


def _find_comparison(read: ValueRead, statement: ast.AST | None) -> str | None:
    """Return the comparison of tensors in place of one that decides by `x.item()`: `x > 3` for `x.item() > 3`."""
    span = read.site.span
    if span is None or not isinstance(statement, ast.If | ast.While | ast.IfExp):
        return None
    for node in ast.walk(statement.test):
        match node:
            case ast.Compare() if any(
                _without_item(one) is not one for one in [node.left, *node.comparators]
            ) and _contains(node, span):
                left, *others = (_without_item(one) for one in [node.left, *node.comparators])
                return ast.unparse(ast.Compare(left, node.ops, others))
    return None


def _without_item(node: ast.expr) -> ast.expr:
    match node:
        case ast.Call(func=ast.Attribute(attr="item", value=tensor)):
            return tensor
    return node


def _contains(node: ast.expr, span: SourceSpan) -> bool:
    begins = (node.lineno, node.col_offset) <= (span.line, span.column)
    return begins and (span.end_line, span.end_column) <= (node.end_lineno or 0, node.end_col_offset or 0)


@lru_cache(maxsize=256)
def _list_nodes(tree: ast.Module) -> list[ast.AST]:
    """Return all nodes of a tree, the innermost first."""
    return [*ast.walk(tree)][::-1]


def _read_text(file: str, span: SourceSpan) -> str:
    lines = [line.encode() for line in linecache.getlines(file)[span.line - 1 : span.end_line]]
    if not lines:
        return ""
    lines[-1] = lines[-1][: span.end_column]
    lines[0] = lines[0][span.column :]
    return " ".join(b" ".join(lines).decode(errors="replace").split())
