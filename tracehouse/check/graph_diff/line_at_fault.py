"""Origins: the line of the source that is at fault for a node which another trace does not have, or has otherwise.

A node knows the lines that led to its operator. What took a side there stands around or before them: the head of the
loop that it was unrolled from, the condition that it was left out by, the conversion that its number came from.
"""

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tracehouse.introspection import user_lines

Frame = tuple[str, int]  # a file, as code objects name it, and a line

# What makes Python's numbers of a tensor or of its sizes: functions, methods, and attributes.
_FUNCTIONS = {"int", "float", "bool", "len", "round", "min", "max", "map", "range", "divmod"}
_METHODS = {"item", "tolist", "numpy", "stride", "nelement", "element_size", "nbytes"}
_LIBRARIES = {"math", "np", "numpy"}
_OUTSIDE = {"random", "secrets", "time", "datetime", "uuid", "os"}
# What is not the same for each call, whatever it is asked of.
_CHANGING = {"shape", "size", "numel", "random"}
_PYTHONS = {"self", "enumerate", "zip", "reversed", "list", "tuple", "sorted", "sum", "abs"}


def of_constant(frames: Sequence[Frame]) -> Frame | None:
    """Where a number that a node has became Python's: the conversion whose result is used there, or handed in there."""
    acting = _acting(frames)
    for depth, frame in enumerate(acting):
        function, statement = _at(frame)
        if function is None or statement is None:
            break
        if _is_script(function) and depth + 1 < len(acting):
            continue  # its parameters are given to it: what is Python's number was made outside
        if _hands_in(statement) if depth else _converts(_head_of(statement)):
            return frame
        used = _names(statement)
        made = _assigned(function, used, before=frame[1])
        if made is not None:
            return frame[0], made
        if not used & _parameters(function):
            break
    return next(iter(acting), None)


def of_structure(frames: Sequence[Frame], *, repeated: bool) -> Frame | None:
    """Where it was decided that these nodes are there: `repeated` where the other trace has some of them too."""
    acting = _acting(frames)
    for frame in acting:
        _, statement = _at(frame)
        head = _loop_around(frame) if repeated and not _recurs(frame, acting) else _condition(frame)
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
    """Whether its function calls itself on the way: what that repeats, a condition ends."""
    function, _ = _at(frame)
    return sum(_at(other)[0] is function for other in frames) > 1


def _acting(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Those in submitted files, where there are any: a person can act there."""
    return [frame for frame in frames if frame[0] in user_lines.submitted] or frames


def _loop_around(frame: Frame) -> int | None:
    """The innermost whose number of rounds is not the same for each call."""
    found = None
    for loop in _around(frame, (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
        what = _what_decides(loop)
        if not _is_fixed(what):
            found = what.lineno
    return found


def _condition(frame: Frame) -> int | None:
    """The innermost condition around it, or the last before it that leaves the function where it holds."""
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


def _what_decides(loop: ast.AST) -> ast.expr:
    match loop:
        case ast.For():
            return loop.iter
        case ast.While():
            return loop.test
    return loop.generators[0].iter  # type: ignore[attr-defined,no-any-return]


def _is_fixed(what: ast.AST) -> bool:
    """Parts of the model and numbers of the source, whatever the call."""
    names = {node.id for node in ast.walk(what) if isinstance(node, ast.Name)}
    changing = {node.attr for node in ast.walk(what) if isinstance(node, ast.Attribute)} & _CHANGING
    return not changing and names <= _PYTHONS | _FUNCTIONS | _LIBRARIES


def _around(frame: Frame, kinds: tuple[type[ast.AST], ...]) -> list[ast.AST]:
    """Nodes of these kinds in whose body the line stands, the outermost first."""
    function, _ = _at(frame)
    if function is None:
        return []
    return [node for node in ast.walk(function) if isinstance(node, kinds) and _holds(node, frame[1])]


def _holds(node: ast.AST, line: int) -> bool:
    match node:
        case ast.For() | ast.While() | ast.If():
            first, last = node.body[0], (node.orelse or node.body)[-1]
            return first.lineno <= line <= (last.end_lineno or last.lineno)
        case ast.expr():
            return node.lineno <= line <= (node.end_lineno or node.lineno)
    return False


def _assigned(function: ast.AST, used: set[str], before: int) -> int | None:
    """The nearest line before, on which one of these names gets what a conversion gives."""
    found = [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign)
        and node.lineno < before
        and node.value is not None
        and used & set(_targets(node))
        and _is_number(node.value)
        and not _is_fixed(node.value)
    ]
    return max(found, default=None)


def _targets(node: ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Name | ast.Attribute):
                yield ast.unparse(part)


def _converts(node: ast.AST | None) -> bool:
    """Whether it makes Python's numbers of what is not the same for each call."""
    return isinstance(node, ast.AST) and any(_is_conversion(part) for part in ast.walk(node)) and not _is_fixed(node)


def _hands_in(statement: ast.AST) -> bool:
    """Whether a function is called there with such a number."""
    calls = [part for part in ast.walk(_head_of(statement) or ast.Pass()) if isinstance(part, ast.Call)]
    given = [value for call in calls for value in (*call.args, *(keyword.value for keyword in call.keywords))]
    return any(_is_number(value) and not _is_fixed(value) for value in given)


def _is_number(value: ast.expr) -> bool:
    """Whether it is what a conversion gives, or is computed of that."""
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


def _names(statement: ast.AST) -> set[str]:
    """That are read there, but for those of which only a part or an attribute is."""
    head = _head_of(statement)
    if head is None:
        return set()
    parts = [*ast.walk(head)]
    owners = {id(part.value) for part in parts if isinstance(part, ast.Attribute | ast.Subscript)}
    read = [part for part in parts if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Load)]
    return {ast.unparse(part) for part in read if id(part) not in owners}


def _head_of(statement: ast.AST) -> ast.AST | None:
    """Of what has a body, the part before it."""
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
    given = function.args
    return {each.arg for each in [*given.posonlyargs, *given.args, *given.kwonlyargs]} - {"self"}


def _at(frame: Frame) -> tuple[ast.AST | None, ast.AST | None]:
    """The innermost function around a line, and the innermost statement at it."""
    tree = _tree("".join(linecache.getlines(frame[0])))
    if tree is None:
        return None, None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt | ast.Lambda) and node.lineno <= frame[1] <= (node.end_lineno or node.lineno)
    ]
    functions = [node for node in around if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    statements = [node for node in around if isinstance(node, ast.stmt)]
    return (functions[-1] if functions else tree), (statements[-1] if statements else None)


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
