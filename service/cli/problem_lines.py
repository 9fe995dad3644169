"""A problem document as a person reads it in a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from service.cli.remedy_options import Command, remedy_lines


def problem_lines(problem: Mapping[str, Any], command: Command = "trace") -> Iterator[str]:
    """Yield what is wrong, where, the facts, and the remedy with the command's options."""
    yield f"{problem.get('title')}" + (f" ({problem['code']})" if problem.get("code") else "")
    errors = problem.get("errors") or []
    yield from (f"  {_location(error)}: {error.get('detail')}" for error in errors)
    if not errors and problem.get("detail"):
        yield f"  {problem['detail']}"
    if problem.get("file"):
        yield f"  {_place(problem)}"
    for fact, value in problem.items():
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            yield f"  {fact}: {', '.join(value)}"
        elif type(value) in (int, float) and fact not in ("status", "line"):
            yield f"  {fact}: {value}"
    if problem.get("remedy"):
        yield from remedy_lines(problem["remedy"], command)


def _location(error: Mapping[str, Any]) -> str:
    return error.get("pointer") or error.get("parameter") or "the body"


def _place(problem: Mapping[str, Any]) -> str:
    """Return `net.py:10: return x`, or as much of it as the problem has."""
    line = "" if problem.get("line") is None else f":{problem['line']}"
    source = f": {problem['source']}" if problem.get("source") else ""
    return f"{problem['file']}{line}{source}"
