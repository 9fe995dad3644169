"""Definitions: the source of one class or function, and the names that it takes from its module."""

import __future__

import ast
import dis
import inspect
import linecache
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tracehouse.source_lines import split_source

_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS"}
_STORES = {"STORE_NAME", "STORE_GLOBAL"}
_FUTURE_FLAGS = {name: getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}
_Node = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Definition:
    """One class or function at the top of a file, from `first` to `last` line, with its decorators.

    `at_once` are the names that it needs when it is defined, and `later` those that its code needs when it runs.
    `futures` are the features that its file imports from `__future__`.
    """

    name: str
    file: str
    first: int
    last: int
    text: str
    at_once: frozenset[str]
    later: frozenset[str]
    dotted: frozenset[str]
    futures: tuple[str, ...]


def find_definition(value: type | FunctionType, file_without_code: str | None) -> Definition | None:
    """Return the definition of a class or function; None if there is no source of it.

    A class without code of its own is looked for by its name in `file_without_code`, or else in the cells of a
    notebook, the latest one first.
    """
    top = value.__qualname__.partition(".")[0]
    for code in codes_of(value):
        found = _find_in(code.co_filename, top, code.co_firstlineno, code.co_flags)
        if found is not None:
            return found
    for file in [file_without_code] if file_without_code else reversed([*filter(_is_cell, linecache.cache)]):
        if (found := _find_in(file, top, None, 0)) is not None:
            return found
    return None


def codes_of(value: type | FunctionType) -> Iterator[CodeType]:
    """Yield the code of a function, or of the functions that a class itself defines."""
    if not isinstance(value, type):
        yield inspect.unwrap(value).__code__
        return
    for part in vars(value).values():
        function = getattr(part, "__func__", None) or getattr(part, "fget", None) or part
        if isinstance(function, FunctionType):
            code = inspect.unwrap(function).__code__
            if code.co_qualname.startswith(f"{value.__qualname__}."):
                yield code


def changed_names(value: type | FunctionType, text: str) -> list[str]:
    """Return what of a class or function is not as the text has it: the text was changed since it was loaded, or the
    class was changed in place."""
    codes = _codes_in(text, next(codes_of(value), None))
    if not isinstance(value, type):
        return [] if inspect.unwrap(value).__code__ in codes else [value.__qualname__]
    node = _node_of(value, text)
    if node is None:
        return [value.__qualname__]
    plain = {one.name for one in node.body if isinstance(one, ast.FunctionDef) and not one.decorator_list}
    functions = {name: part for name, part in vars(value).items() if isinstance(part, FunctionType)}
    changed = [name for name in sorted(plain) if name not in functions or functions[name].__code__ not in codes]
    # A decorator may add functions, and so do classes such as enums, whose functions no file of a user has.
    bound = {*_names_bound_in(node)}
    added = [
        name
        for name, function in functions.items()
        if name not in bound and not node.decorator_list and function.__module__ == value.__module__
        and not function.__code__.co_filename.startswith("<string>")
    ]  # fmt: skip
    return [f"{value.__qualname__}.{name}" for name in [*changed, *added]]


def changed_globals(module: ModuleType, text: str) -> list[tuple[str, Any, Any]]:
    """Return the plain values of a module that are not as its text says: their names, and the values there and here."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return []
    assigned: dict[str, list[ast.expr]] = {}
    for statement in body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name) and not target.id.startswith("__"):
                    assigned.setdefault(target.id, []).append(statement.value)
    changed = []
    for name, values in assigned.items():
        try:
            there = ast.literal_eval(values[-1])
        except ValueError:
            continue
        here = vars(module).get(name, there)
        if type(here) is not type(there) or repr(here) != repr(there):
            changed.append((name, there, here))
    return changed


def _codes_in(text: str, like: CodeType | None) -> list[CodeType]:
    """Return all code in a text, compiled with the features that the code `like` has from `__future__`."""
    flags = sum(flag for flag in _FUTURE_FLAGS.values() if like is not None and like.co_flags & flag)
    try:
        # A cell of a notebook may await at its top.
        flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return [*_all_codes(compile(text, "<text>", "exec", flags, dont_inherit=True))]
    except SyntaxError:
        return []


def _node_of(value: type, text: str) -> ast.ClassDef | None:
    """Return the last definition of a class in a text, by its qualified name."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None
    found: ast.ClassDef | None = None
    for name in value.__qualname__.split("."):
        classes = [one for one in _definitions_in(body) if isinstance(one, ast.ClassDef) and one.name == name]
        if not classes:
            return None
        found = classes[-1]
        body = found.body
    return found


def _names_bound_in(node: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield each.name
            case ast.Name(ctx=ast.Store()):
                yield each.id


def decorated_function(value: Any) -> FunctionType | None:
    """Return the function that a decorator has made into something else, such as a compiled or a cached function."""
    inner = getattr(value, "_torchdynamo_inline", None)  # of torch.jit.script
    if inner is None and callable(value):
        inner = inspect.unwrap(value)
    return inner if isinstance(inner, FunctionType) and inner is not value else None


def text_of_file(file: str) -> str:
    """Return the text of a file, or of a cell of a notebook; it is empty if there is none."""
    return "".join(linecache.getlines(file))


def _find_in(file: str, name: str, line: int | None, flags: int) -> Definition | None:
    """Return the definition of this name that has the line; the last one of the file if no line is given."""
    text = text_of_file(file)
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    for node in reversed([*_definitions_in(tree.body)]):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        last = node.end_lineno or node.lineno
        if node.name == name and (line is None or first <= line <= last):
            lines = split_source(text, keepends=True)[first - 1 : last]
            return _describe(file, node, first, last, textwrap.dedent("".join(lines)), flags)
    return None


def _definitions_in(body: list[ast.stmt]) -> Iterator[_Node]:
    """Yield the definitions at the top, those in `if`, `try` and `with` too."""
    for statement in body:
        if isinstance(statement, _Node):
            yield statement
        for part in ("body", "orelse", "finalbody", "handlers"):
            inner = getattr(statement, part, [])
            if not isinstance(statement, _Node):
                yield from _definitions_in([one for one in inner if isinstance(one, ast.stmt)])
                for handler in inner:
                    if isinstance(handler, ast.ExceptHandler):
                        yield from _definitions_in(handler.body)


def _describe(file: str, node: _Node, first: int, last: int, text: str, flags: int) -> Definition:
    at_once, later = set[str](), set[str]()
    for code, is_function in _scopes(compile(text, file, "exec", dont_inherit=True), is_function=False):
        own: set[str] = set()
        for instruction in dis.get_instructions(code):
            if instruction.opname in _LOADS and instruction.argval not in own:
                (later if is_function else at_once).add(instruction.argval)
            elif instruction.opname in _STORES:
                own.add(instruction.argval)
    later |= {*_names_in_annotations(node)} - at_once
    futures = tuple(name for name, flag in _FUTURE_FLAGS.items() if flags & flag)
    dotted = frozenset(_dotted_names(node))
    return Definition(node.name, file, first, last, text, frozenset(at_once), frozenset(later), dotted, futures)


def _scopes(code: CodeType, *, is_function: bool) -> Iterator[tuple[CodeType, bool]]:
    """Yield each code with whether it runs later than the definition."""
    yield code, is_function
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _scopes(constant, is_function=is_function or bool(constant.co_flags & inspect.CO_NEWLOCALS))


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    for inner, _ in _scopes(code, is_function=False):
        yield inner


def _names_in_annotations(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        for annotation in (getattr(each, "annotation", None), getattr(each, "returns", None)):
            if isinstance(annotation, ast.AST):
                yield from _names_in_annotation(annotation)


def _names_in_annotation(annotation: ast.AST) -> Iterator[str]:
    for node in ast.walk(annotation):
        match node:
            case ast.Name():
                yield node.id
            case ast.Constant(value=str() as text):
                try:
                    yield from _names_in_annotation(ast.parse(text, mode="eval"))
                except SyntaxError:
                    continue


def _dotted_names(node: ast.AST) -> Iterator[str]:
    """Yield `torch.nn.functional` for each `torch.nn.functional.relu`, and `torch.nn` too."""
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and (name := _dotted_name(each)) is not None:
            yield name


def _dotted_name(node: Any) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    outer = _dotted_name(node.value) if isinstance(node, ast.Attribute) else None
    return None if outer is None else f"{outer}.{node.attr}"


def _is_cell(file: str) -> bool:
    return "ipykernel_" in file or file.startswith("<ipython-input")
