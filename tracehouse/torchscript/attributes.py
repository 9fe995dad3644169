"""Attributes: what a ScriptModule holds beside tensors and submodules, and short texts of their values."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch

from tracehouse.introspection import user_lines
from tracehouse.torchscript import tensor_constants

_VALUE_MAX_CHARACTERS = 100
# How many items of a list are written: a million numbers would take a second, only to be cut afterwards.
_ITEMS_MAX = 20


class Attribute(NamedTuple):
    """An attribute's name, its TorchScript type and its value."""

    name: str
    type: str
    value: Any


def attributes_of(module: torch.jit.ScriptModule) -> Iterator[Attribute]:
    """Yield the module's attributes sorted by name, without those of its submodules."""
    concrete: Any = torch._C.ConcreteModuleType.from_jit_type(module._c._type())
    for name, (kind, _) in sorted(concrete.get_attributes().items()):
        # torch uses this attribute for itself, in every module.
        if kind.kind() != "TensorType" and name != "_is_full_backward_hook":
            yield Attribute(name, kind.annotation_str, module._c.getattr(name))


def count_tensor_values(module: torch.jit.ScriptModule) -> int:
    """Return the number of values in all tensors among the module's attributes, also in lists and dicts."""
    return sum(_count(attribute.value) for attribute in attributes_of(module) if "Tensor" in attribute.type)


def shorten_value(value: Any) -> str:
    """Return a text of an attribute's value, cut to 100 characters."""
    match value:
        case torch.Tensor():
            text = tensor_constants.describe_tensor(value)
        case list() | tuple():
            text = _join_items(map(shorten_value, islice(value, _ITEMS_MAX)), len(value), "[]")
        case dict():
            items = (f"{shorten_value(key)}: {shorten_value(item)}" for key, item in islice(value.items(), _ITEMS_MAX))
            text = _join_items(items, len(value), "{}")
        case _:
            text = user_lines.clean_text(str(value))
    return user_lines.shorten(text, _VALUE_MAX_CHARACTERS)


def _count(value: Any) -> int:
    match value:
        case torch.Tensor():
            return value.numel()
        case list() | tuple():
            return sum(map(_count, value))
        case dict():
            return sum(map(_count, value.values()))
    return 0


def _join_items(items: Iterable[str], count: int, brackets: str) -> str:
    more = [f"... ({count} items)"] if count > _ITEMS_MAX else []
    return f"{brackets[0]}{', '.join([*items, *more])}{brackets[1]}"
