"""Calling a compiled method with arguments by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def call_method(method: Callable[..., Any], schema: Any, arguments: Mapping[str, Any]) -> Any:
    """Call the method and return its outputs. Raises whatever the method raises.

    Arguments are passed by position as far as possible, because a trace may rename its parameters. They are passed by
    name from the first parameter on that is keyword-only or is left to its default.
    """
    by_position = count_by_position(schema, [*arguments])
    names, values = [*arguments], [*arguments.values()]
    return method(*values[:by_position], **dict(zip(names[by_position:], values[by_position:], strict=True)))


def count_by_position(schema: Any, names: Sequence[str]) -> int:
    """Return how many of the arguments with these names are passed by position."""
    parameters = [argument for argument in schema.arguments if argument.name != "self"]
    known = {parameter.name for parameter in parameters}
    for place, name in enumerate(names):
        if not _goes_by_position(place, name, parameters, known):
            return place
    return len(names)


def _goes_by_position(place: int, name: str, parameters: list[Any], names: set[str]) -> bool:
    if place >= len(parameters):
        return True  # torch then says that there are too many arguments
    parameter = parameters[place]
    return not parameter.kwarg_only and (parameter.name == name or name not in names)
