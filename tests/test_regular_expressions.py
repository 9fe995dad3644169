"""Every regular expression is linear: text that is twice as long takes twice the time, whatever a stranger wrote in it.

Each expression of the code is fed with long repetitions of what it is made of, as it is used: searched for or matched.
Processor times are compared with each other, never with a clock. pydantic's `pattern` is linear by itself, for its
engine never goes back.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from time import process_time
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for package in ("service", "workers", "tracehouse") for path in (ROOT / package).rglob("*.py"))
USES = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
# What goes on from each place of a text: quadratic time is then easy to have.
SEARCHES = {"search", "sub", "subn", "split", "findall", "finditer"}
ATOMS_MAX = 14
LENGTH = 3000
# Fewer seconds of processor time are no sign of quadratic time at that length: it takes ten times as many.
SUSPICIOUS_S = 0.003
# Four times the length takes four times the time if it is linear, and sixteen times if it is quadratic.
RATIO_MAX = 9.0


@dataclass(frozen=True)
class Use:
    """An expression, and the method that is called: some try each place of a text, and others only the first."""

    where: str
    pattern: "re.Pattern[Any]"
    method: str

    def run(self, text: str) -> None:
        given: Any = text.encode() if isinstance(self.pattern.pattern, bytes) else text
        if self.method in SEARCHES:
            for _ in self.pattern.finditer(given):
                pass
        else:
            getattr(self.pattern, self.method)(given)


def uses() -> Iterator[Use]:
    texts = {path: path.read_text() for path in FILES}
    methods_of: dict[str, set[str]] = {}
    for text in texts.values():
        for name, method in re.findall(rf"\b(\w+)\.({'|'.join(USES)})\b", text):
            methods_of.setdefault(name, set()).add(method)
    for path, text in texts.items():
        if "import re\n" not in text:
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        where = path.relative_to(ROOT).as_posix()
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and re.search(rf"^{name} = re\.compile\(", text, re.MULTILINE):
                methods = methods_of.get(name, set())
                # One that is handed on is used as the file uses what has no name in capitals.
                methods = methods or set(re.findall(rf"\b(?!re\b)[a-z_]+\.({'|'.join(USES)})\(", text)) - {"split"}
                assert methods, f"nobody uses {name} of {where}"
                for method in sorted(methods & SEARCHES)[:1] + sorted(methods - SEARCHES):
                    yield Use(f"{where}:{name}", value, method)
        for call in _inline_calls(ast.parse(text)):
            yield Use(f"{where}:{call.lineno}", _inline_pattern(call, vars(module)), call.func.attr)  # type: ignore[attr-defined]


def _inline_calls(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the calls of `re.search` and its like with an expression that is not compiled before."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method)) if method in USES:
                yield node


def _inline_pattern(call: ast.Call, names: dict[str, Any]) -> "re.Pattern[Any]":
    """Return the expression; a name that only the function knows stands for a word."""
    local = {node.id: "word" for node in ast.walk(call.args[0]) if isinstance(node, ast.Name) and node.id not in names}
    assert not any(keyword.arg == "flags" for keyword in call.keywords)
    return re.compile(eval(compile(ast.Expression(call.args[0]), "", "eval"), names, local))


def adversarial(pattern: "re.Pattern[Any]", length: int) -> Iterator[str]:
    """Yield texts that repeat one or two parts of the expression, some with another beginning or end."""
    atoms = _atoms(pattern)
    pumps = [*atoms, *("".join(pair) for pair in product(atoms, repeat=2))]
    for pump, before, after in product(pumps, ["", *atoms[:4]], ["", "\n", "\x00"]):
        yield before + pump * (length // len(pump)) + after


def _atoms(pattern: "re.Pattern[Any]") -> list[str]:
    text = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    flags = pattern.flags & ~re.UNICODE
    found = dict.fromkeys(_literals(parser.parse(text, flags)))
    longest_first = sorted(found, key=len, reverse=True)
    single = [each for each in found if len(each) == 1]
    return list(dict.fromkeys([*longest_first[:4], *single]))[:ATOMS_MAX]


def _literals(tree: Any) -> Iterator[str]:
    """Yield each run of characters that the expression spells, and one character of each class."""
    run = ""
    for code, argument in tree:
        if code is opcodes.LITERAL:
            run += chr(argument)
            continue
        if run:
            yield from (run, run[0])
            run = ""
        yield from _literals_in(code, argument)
    if run:
        yield from (run, run[0])


def _literals_in(code: Any, argument: Any) -> Iterator[str]:
    if code is opcodes.IN:
        yield from _members(argument)
    elif code is opcodes.NOT_LITERAL:
        yield "a" if argument != ord("a") else "b"
    elif code is opcodes.ANY:
        yield "a"
    elif code is opcodes.BRANCH:
        for branch in argument[1]:
            yield from _literals(branch)
    elif isinstance(argument, tuple):
        for part in argument:
            if isinstance(part, parser.SubPattern):
                yield from _literals(part)
    elif isinstance(argument, parser.SubPattern):
        yield from _literals(argument)


def _members(members: Any) -> Iterator[str]:
    excluded = [argument for code, argument in members if code is opcodes.LITERAL]
    if members[0][0] is opcodes.NEGATE:
        yield next(each for each in "a1 " if ord(each) not in excluded)
    for code, argument in members:
        if code is opcodes.LITERAL:
            yield chr(argument)
        elif code is opcodes.RANGE:
            yield chr(argument[0])
        elif code is opcodes.CATEGORY:
            yield from {opcodes.CATEGORY_DIGIT: "1", opcodes.CATEGORY_SPACE: " \n"}.get(argument, "a")


def seconds(use: Use, text: str) -> float:
    before = process_time()
    use.run(text)
    return process_time() - before


def is_quadratic(use: Use, make: "partial[Iterator[str]]", place: int) -> bool:
    """Whether the text at this place of those that `make` makes takes too long for its length, each time."""
    short, long = (next(text for at, text in enumerate(make(length)) if at == place) for length in (2000, 8000))
    least = [min(seconds(use, text) for _ in range(3)) for text in (short, long)]
    return least[1] > RATIO_MAX * max(least[0], SUSPICIOUS_S / 10)


def find_quadratic(use: Use) -> str | None:
    """Return the beginning of a text on which the expression takes quadratic time; None if there is none."""
    make = partial(adversarial, use.pattern)
    for place, text in enumerate(make(LENGTH)):
        if seconds(use, text) > SUSPICIOUS_S and is_quadratic(use, make, place):
            return text[:60]
    return None


USED = list(uses())


@pytest.mark.parametrize("use", USED, ids=[f"{use.where} {use.method}" for use in USED])
def test_a_regular_expression_takes_linear_time(use: Use) -> None:
    assert find_quadratic(use) is None, use.pattern.pattern


@pytest.mark.parametrize(
    ("expression", "method"),
    [(r'"(?:[^"\\]|\\.)*"', "sub"), (r"\s+x", "search"), (r".*\.pt(?:#(.+))?", "fullmatch")],
)
def test_quadratic_time_is_noticed(expression: str, method: str) -> None:
    """Else the test above would hold for any expression."""
    assert find_quadratic(Use("here", re.compile(expression), method)) is not None


def test_no_model_has_pydantic_use_an_engine_that_goes_back() -> None:
    assert not [path for path in FILES if "python-re" in path.read_text()]
