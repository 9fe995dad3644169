"""Compiled methods: how one is called with what a contract hands over."""

from collections.abc import Callable, Mapping
from typing import Any


def call_method(method: Callable[..., Any], schema: Any, handed_over: Mapping[str, Any]) -> Any:
    """By position as far as that goes: a trace names its parameters as it likes.

    By name from the first parameter on that can be given by name alone, or that is left to its default.
    """
    parameters = [argument for argument in schema.arguments if argument.name != "self"]
    names = {parameter.name for parameter in parameters}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, value in handed_over.items():
        if not kwargs and _goes_by_position(len(args), name, parameters, names):
            args.append(value)
        else:
            kwargs[name] = value
    return method(*args, **kwargs)


def _goes_by_position(place: int, name: str, parameters: list[Any], names: set[str]) -> bool:
    if place >= len(parameters):
        return True  # torch says that there are too many
    parameter = parameters[place]
    return not parameter.kwarg_only and (parameter.name == name or name not in names)
