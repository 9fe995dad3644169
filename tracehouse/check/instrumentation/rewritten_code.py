"""Rewritten code: the functions of a file, in which a call of the follower stands in the place of each operation."""

import ast
import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

from tracehouse.check.instrumentation.caught_errors import is_suppress
from tracehouse.check.instrumentation.counting_loops import keeps_something

FOLLOWER_NAME = "__followed_code__"  # the builtin under which the rewritten code finds the follower
# They look at the frame that calls them, which has to stay the user's.
_LOOKS_AT_ITS_CALLER = {"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__"}
_TAKES_FRAMES = {"_getframe", "currentframe"}  # of `sys` and `inspect`
_TESTED = ("call", "take_item", "take_attribute", "operate", "join", "collect")
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.BitAnd: "and_", ast.MatMult: "matmul",
}  # fmt: skip
_IN_PLACE = {kind: f"i{name.rstrip('_')}" for kind, name in _OPERATORS.items()}


@lru_cache(maxsize=64)
def rewrite(file: str, text: str) -> dict[CodeType, CodeType]:
    """Return the rewritten code by the own code of each function of a file; two functions that look alike are left out.

    The own code is that of this text: a file may have changed since it was imported.
    """
    try:
        own = compile(text, file, "exec", dont_inherit=True)
        tree = _Rewriter().visit(ast.parse(text))
        rewritten = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    codes = _identify_all(own)
    return {codes[key]: code for key, code in _identify_all(rewritten).items() if key in codes}


def _identify(code: CodeType) -> tuple[Any, ...]:
    """Return what a function's code has in common with its rewritten one, and with no other."""
    return code.co_qualname, code.co_firstlineno, code.co_freevars, code.co_varnames[: code.co_argcount]


def _identify_all(module: CodeType) -> dict[tuple[Any, ...], CodeType]:
    """Return the code of each function of a module that can be told from all others."""
    times = Counter(map(_identify, _walk(module)))
    return {_identify(code): code for code in _walk(module) if times[_identify(code)] == 1}


def _walk(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _walk(constant)


class _Rewriter(ast.NodeTransformer):
    """Puts a call of the follower in the place of each operation. The call has the place of the operation in the file,
    because a read is known by its place."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        # A method is looked up as it was: as an attribute of its own, it would have another place.
        function = node.func if name else self._visit_function(node.func)
        args = [self.visit(arg) for arg in node.args]
        keywords = [ast.keyword(one.arg, self.visit(one.value)) for one in node.keywords]
        if name in ("eval", "exec"):
            args = [_follow(node, "evaluate", arg) if place == 0 else arg for place, arg in enumerate(args)]
        if name in _LOOKS_AT_ITS_CALLER or getattr(node.func, "attr", "") in _TAKES_FRAMES:
            return ast.copy_location(ast.Call(function, args, keywords), node)
        call = _follow(node, "call", function, *args)
        call.keywords = keywords
        return _place_at_attribute(call, node.func)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        parts = [self._write(part) if isinstance(part, ast.FormattedValue) else part for part in node.values]
        return _follow(node, "join", *parts)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        name = ast.copy_location(ast.Constant(_OPERATORS[type(node.op)]), node)
        return _follow(node, "operate", name, self.visit(node.left), self.visit(node.right))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not _may_be_computed_twice(node.target):
            return self.generic_visit(node)
        before = self.visit(_change_context(node.target, ast.Load()))
        name = ast.copy_location(ast.Constant(_IN_PLACE[type(node.op)]), node)
        value = _follow(node, "operate", name, before, self.visit(node.value))
        if isinstance(node.target, ast.Subscript):
            container, key = self.visit(node.target.value), self._visit_key(node.target.slice)
            return ast.copy_location(ast.Expr(_follow(node.target, "put_item", value, container, key)), node)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if len(node.targets) > 1 or not isinstance(target, ast.Subscript):
            self.generic_visit(node)
            if isinstance(target, ast.Tuple | ast.List):
                node.value = _follow(node.value, "go_through", node.value)
            return node
        key = self._visit_key(target.slice)
        stored = _follow(target, "put_item", self.visit(node.value), self.visit(target.value), key)
        return ast.copy_location(ast.Expr(stored), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        left, *others = [self.visit(one) for one in (node.left, *node.comparators)]
        if len(others) > 1:
            return ast.copy_location(ast.Compare(left, node.ops, others), node)
        name = ast.copy_location(ast.Constant(type(node.ops[0]).__name__), node)
        return _follow(node, "compare", name, left, others[0])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        owner = self.visit(node.value)
        # The compiler changes the name of a private attribute.
        if not isinstance(node.ctx, ast.Load) or node.attr.startswith("__"):
            return ast.copy_location(ast.Attribute(owner, node.attr, node.ctx), node)
        taken = _follow(node, "take_attribute", owner, ast.copy_location(ast.Constant(node.attr), node))
        return _place_at_attribute(taken, node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        owner, key = self.visit(node.value), self._visit_key(node.slice)
        if not isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Subscript(owner, key, node.ctx), node)
        return _follow(node, "take_item", owner, key)

    def visit_For(self, node: ast.For) -> ast.AST:
        name = "repeat" if keeps_something(node) else "go_through"
        self.generic_visit(node)
        node.iter = _follow(node.iter, name, node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if not node.is_async:
            node.iter = _follow(node.iter, "go_through", node.iter)
        node.ifs = [self._test(one) for one in node.ifs]
        return node

    def visit_Set(self, node: ast.Set | ast.SetComp | ast.DictComp | ast.Dict) -> ast.AST:
        return _follow(node, "collect", self.generic_visit(node))

    visit_SetComp = visit_Set
    visit_DictComp = visit_Set
    visit_Dict = visit_Set

    def visit_If(self, node: ast.If | ast.While | ast.IfExp | ast.Assert) -> ast.AST:
        self.generic_visit(node)
        node.test = self._test(node.test)
        return node

    visit_While = visit_If
    visit_IfExp = visit_If
    visit_Assert = visit_If

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        node.values = [self._test(one) for one in node.values]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = self._test(node.operand)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = None if node.value is None else self.visit(node.value)
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        return node  # defaults are computed where the function is defined

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.body = [self.visit(one) for one in node.body]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        noted = ast.copy_location(ast.Expr(_follow(node, "catch")), node)
        node.body = [noted, *(self.visit(one) for one in node.body)]
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        suppresses = any(is_suppress(item.context_expr) for item in node.items)
        self.generic_visit(node)
        if suppresses:
            node.body.append(ast.copy_location(ast.Expr(_follow(node, "complete")), node))
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        kinds = [one.cls for case in node.cases for one in ast.walk(case.pattern) if isinstance(one, ast.MatchClass)]
        self.generic_visit(node)
        if any(isinstance(kind, ast.Name) and kind.id in ("int", "float", "bool") for kind in kinds):
            node.subject = _follow(node.subject, "take_numbers", node.subject)
        if kinds:
            node.subject = _follow(node.subject, "match_kinds", node.subject)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = _follow(node.value, "go_through", node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.guard = None if node.guard is None else self.visit(node.guard)
        node.body = [self.visit(one) for one in node.body]
        return node

    def _visit_function(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Attribute):
            return self.visit(node)
        return ast.copy_location(ast.Attribute(self.visit(node.value), node.attr, node.ctx), node)

    def _visit_key(self, node: ast.expr) -> Any:
        """Return the key of a subscript, in which each slice is made by a call."""
        match node:
            case ast.Slice():
                ends = (node.lower, node.upper, node.step)
                args = [ast.Constant(None) if end is None else self.visit(end) for end in ends]
                return _follow(node, "make_slice", *args)
            case ast.Tuple():
                return ast.copy_location(ast.Tuple([self._visit_key(one) for one in node.elts], node.ctx), node)
        return self.visit(node)

    def _write(self, node: ast.FormattedValue) -> ast.AST:
        conversion = ast.Constant("" if node.conversion < 0 else chr(node.conversion))
        form = ast.Constant("") if node.format_spec is None else self.visit(node.format_spec)
        return _follow(node, "write", self.visit(node.value), conversion, form)

    def _test(self, node: ast.expr) -> Any:
        # A comparison is followed already, and what is read where it is tested is known by another place.
        if isinstance(node, ast.Name) or _is_follower_call(node, _TESTED):
            return _follow(node, "test", node)
        return node


def _may_be_computed_twice(target: ast.expr) -> bool:
    """Whether a target consists of names and constants alone, so that to compute it twice changes nothing."""
    match target:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute():
            return not target.attr.startswith("__") and _may_be_computed_twice(target.value)
        case ast.Subscript():
            return _may_be_computed_twice(target.value) and _may_be_computed_twice(target.slice)
    return False


def _change_context(target: ast.expr, context: ast.expr_context) -> ast.expr:
    """Return a copy of a target as an expression that is read."""
    copied = copy.deepcopy(target)
    copied.ctx = context  # type: ignore[attr-defined]
    return copied


def _follow(place: ast.AST, name: str, *args: Any) -> ast.Call:
    method = ast.Attribute(ast.Name(FOLLOWER_NAME, ast.Load()), name, ast.Load())
    call = ast.Call(method, [*args], [])
    for node in (call, method, method.value):
        ast.copy_location(node, place)
    return call


def _is_follower_call(node: ast.AST, names: Iterable[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
            return name == FOLLOWER_NAME and method in names
    return False


def _place_at_attribute(call: ast.Call, function: ast.expr) -> ast.Call:
    """Give what is done with an attribute on another line than its object the place that Python gives it."""
    if isinstance(function, ast.Attribute) and function.end_lineno != call.lineno:
        assert function.end_lineno is not None
        assert function.end_col_offset is not None
        call.lineno = function.end_lineno
        call.col_offset = function.end_col_offset - len(function.attr)
        call.func.lineno = call.lineno
        call.func.end_lineno = call.lineno
    return call
