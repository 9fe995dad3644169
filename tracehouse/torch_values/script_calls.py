"""Calling a compiled method with arguments by name."""

from collections.abc import Callable, Mapping
from typing import Any


def call_method(method: Callable[..., Any], schema: Any, arguments: Mapping[str, Any]) -> Any:
    """Call the method and return its outputs. Raises whatever the method raises.

    Arguments are passed by position as far as possible, because a trace may rename its parameters. They are passed by
    name from the first parameter on that is keyword-only or is left to its default.
    """
    parameters = [argument for argument in schema.arguments if argument.name != "self"]
    names = {parameter.name for parameter in parameters}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, value in arguments.items():
        if not kwargs and _goes_by_position(len(args), name, parameters, names):
            args.append(value)
        else:
            kwargs[name] = value
    return method(*args, **kwargs)


def _goes_by_position(place: int, name: str, parameters: list[Any], names: set[str]) -> bool:
    if place >= len(parameters):
        return True  # torch then says that there are too many arguments
    parameter = parameters[place]
    return not parameter.kwarg_only and (parameter.name == name or name not in names)
