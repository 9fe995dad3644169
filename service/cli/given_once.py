"""What a command line gives under names, each of them once: of two values, one would be lost without a word."""

from typing import TypeVar

import typer

Value = TypeVar("Value")


def add_once(given: dict[str, Value], name: str, value: Value, what: str) -> None:
    """Add the value under its name. Raises typer.BadParameter if the name has one already."""
    if name in given:
        raise typer.BadParameter(f"{what} {name!r} is given twice")
    given[name] = value
