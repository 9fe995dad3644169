"""The line at fault: why another trace lacks a node, or has another number in it.

A node knows the lines that led to its operator. The cause is around or before them: the head of the loop that was
unrolled, the condition that left the node out, or the conversion that made its number. The syntax tree of the source
shows them, so the line is a good guess and no proof.
"""

import ast
from collections.abc import Iterator, Sequence

from tracehouse.introspection import source_trees, user_lines

Frame = tuple[str, int]  # a file, as code objects name it, and a line

# Functions, and then methods and attributes, that turn a tensor or its sizes into Python numbers.
_FUNCTIONS = {"int", "float", "bool", "len", "round", "min", "max", "map", "range", "divmod"}
_METHODS = {"item", "tolist", "numpy", "stride", "nelement", "element_size", "nbytes"}
_LIBRARIES = {"math", "np", "numpy"}
_OUTSIDE = {"random", "secrets", "time", "datetime", "uuid", "os"}
# Attributes whose value may differ between calls, whatever object has them.
_CHANGING = {"shape", "size", "numel", "random"}
_PYTHONS = {"self", "enumerate", "zip", "reversed", "list", "tuple", "sorted", "sum", "abs"}


def find_origin_of_constant(frames: Sequence[Frame]) -> Frame | None:
    """Return the line that made a node's number a Python number: the conversion whose result is used or passed there.

    `frames` are the lines that led to the node, the innermost first. None if there are none.
    """
    lines = _lines_to_act_on(frames)
    for depth, frame in enumerate(lines):
        function, statement = _at(frame)
        if function is None or statement is None:
            break
        if _is_script(function) and depth + 1 < len(lines):
            continue  # the numbers that it uses are its parameters, and were made by its caller
        if _passes_number(statement) if depth else _converts(_head_of(statement)):
            return frame
        used = _names_read(statement)
        assignment = _find_assignment(function, used, before=frame[1])
        if assignment is not None:
            return frame[0], assignment
        if not used & _parameters(function):
            break
    return next(iter(lines), None)


def find_origin_of_step(frames: Sequence[Frame], *, repeated: bool) -> Frame | None:
    """Return the line that decided that the nodes at `frames` exist: a loop, a condition; None if it is unknown.

    `repeated` is whether the other trace has some of these nodes.
    """
    lines = _lines_to_act_on(frames)
    for frame in lines:
        _, statement = _at(frame)
        head = _loop_around(frame) if repeated and not _recurs(frame, lines) else _condition(frame)
        if head is None and statement is not None and _converts(_head_of(statement)):
            head = frame[1]
        head = head or _loop_around(frame)
        if head is not None:
            return frame[0], head
    return None


def _is_script(function: ast.AST) -> bool:
    decorators = getattr(function, "decorator_list", [])
    return any(ast.unparse(one).endswith("jit.script") for one in decorators)


def _recurs(frame: Frame, frames: Sequence[Frame]) -> bool:
    """Whether the line's function calls itself among these lines: a condition, and no loop, ends a recursion."""
    function, _ = _at(frame)
    return sum(_at(other)[0] is function for other in frames) > 1


def _lines_to_act_on(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the lines of submitted files, which a person can change; without any, all lines."""
    return [frame for frame in frames if frame[0] in user_lines.submitted] or frames


def _loop_around(frame: Frame) -> int | None:
    """Return the line of the innermost loop around the line whose number of turns may differ between calls."""
    line = None
    for loop in _around(frame, (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
        expression = _turns_expression(loop)
        if not _is_fixed(expression):
            line = expression.lineno
    return line


def _condition(frame: Frame) -> int | None:
    """Return the line of the innermost condition around the line, or of the last one before it whose branch returns."""
    function, _ = _at(frame)
    around = [node.test for node in _around(frame, (ast.If, ast.IfExp)) if isinstance(node, ast.If | ast.IfExp)]
    body = function.body if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else []
    leaving = [
        statement.test
        for statement in body
        if isinstance(statement, ast.If) and statement.lineno < frame[1] and _leaves(statement)
    ]
    return next((test.lineno for tests in (around, leaving) for test in reversed(tests) if not _is_fixed(test)), None)


def _leaves(statement: ast.If) -> bool:
    return any(isinstance(branch[-1], ast.Return) for branch in (statement.body, statement.orelse) if branch)


def _turns_expression(loop: ast.AST) -> ast.expr:
    """Return the expression that decides how many turns the loop makes."""
    match loop:
        case ast.For():
            return loop.iter
        case ast.While():
            return loop.test
    return loop.generators[0].iter  # type: ignore[attr-defined,no-any-return]


def _is_fixed(what: ast.AST) -> bool:
    """Whether the value is the same for each call: it consists of parts of the model and numbers in the source."""
    names = {node.id for node in ast.walk(what) if isinstance(node, ast.Name)}
    changing = {node.attr for node in ast.walk(what) if isinstance(node, ast.Attribute)} & _CHANGING
    return not changing and names <= _PYTHONS | _FUNCTIONS | _LIBRARIES


def _around(frame: Frame, kinds: tuple[type[ast.AST], ...]) -> list[ast.AST]:
    """Return the nodes of these kinds whose body has the line, the outermost first."""
    function, _ = _at(frame)
    if function is None:
        return []
    return [node for node in ast.walk(function) if isinstance(node, kinds) and _has_line(node, frame[1])]


def _has_line(node: ast.AST, line: int) -> bool:
    match node:
        case ast.For() | ast.While() | ast.If():
            first, last = node.body[0], (node.orelse or node.body)[-1]
            return first.lineno <= line <= (last.end_lineno or last.lineno)
        case ast.expr():
            return node.lineno <= line <= (node.end_lineno or node.lineno)
    return False


def _find_assignment(function: ast.AST, used: set[str], before: int) -> int | None:
    """Return the nearest line before on which one of these names gets the result of a conversion."""
    lines = [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign)
        and node.lineno < before
        and node.value is not None
        and used & set(_targets(node))
        and _is_number(node.value)
        and not _is_fixed(node.value)
    ]
    return max(lines, default=None)


def _targets(node: ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Name | ast.Attribute):
                yield ast.unparse(part)


def _converts(node: ast.AST | None) -> bool:
    """Whether the node makes Python numbers from something that may differ between calls."""
    return isinstance(node, ast.AST) and any(_is_conversion(part) for part in ast.walk(node)) and not _is_fixed(node)


def _passes_number(statement: ast.AST) -> bool:
    """Whether the statement calls a function with a number that may differ between calls."""
    calls = [part for part in ast.walk(_head_of(statement) or ast.Pass()) if isinstance(part, ast.Call)]
    given = [value for call in calls for value in (*call.args, *(keyword.value for keyword in call.keywords))]
    return any(_is_number(value) and not _is_fixed(value) for value in given)


def _is_number(value: ast.expr) -> bool:
    """Whether the value is the result of a conversion, or is computed from one."""
    match value:
        case ast.BinOp():
            return _is_number(value.left) or _is_number(value.right)
        case ast.UnaryOp():
            return _is_number(value.operand)
        case ast.Tuple() | ast.List():
            return any(map(_is_number, value.elts))
        case ast.ListComp():
            return _is_number(value.elt)
        case ast.Subscript():
            return _is_number(value.value)
        case ast.Attribute():
            return _is_conversion(value) or _is_number(value.value)
        case ast.Call():
            return _is_conversion(value) or _is_number(value.func)
    return _is_conversion(value)


def _is_conversion(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in _FUNCTIONS
        case ast.Attribute(value=ast.Name(id=name)) if name in _LIBRARIES | _OUTSIDE:
            return True
        case ast.Attribute(attr=name):
            return name in _METHODS
    return isinstance(node, ast.IfExp)


def _names_read(statement: ast.AST) -> set[str]:
    """Return the names that the statement reads, without those of which it reads only an item or an attribute."""
    head = _head_of(statement)
    if head is None:
        return set()
    parts = [*ast.walk(head)]
    owners = {id(part.value) for part in parts if isinstance(part, ast.Attribute | ast.Subscript)}
    read = [part for part in parts if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Load)]
    return {ast.unparse(part) for part in read if id(part) not in owners}


def _head_of(statement: ast.AST) -> ast.AST | None:
    """Return the part before the body of a statement that has one; None for `with` and `try`."""
    match statement:
        case ast.For():
            return statement.iter
        case ast.While() | ast.If():
            return statement.test
        case ast.With() | ast.Try():
            return None
    return statement


def _parameters(function: ast.AST) -> set[str]:
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return set()
    arguments = function.args
    return {parameter.arg for parameter in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]} - {"self"}


def _at(frame: Frame) -> tuple[ast.AST | None, ast.AST | None]:
    """Return the innermost function around a line, or its module, and the innermost statement at the line."""
    tree = source_trees.parse_file(frame[0])
    if not tree.body:
        return None, None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt | ast.Lambda) and node.lineno <= frame[1] <= (node.end_lineno or node.lineno)
    ]
    functions = [node for node in around if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    statements = [node for node in around if isinstance(node, ast.stmt)]
    return (functions[-1] if functions else tree), (statements[-1] if statements else None)
