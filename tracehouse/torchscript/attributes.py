"""Attributes: what a module of TorchScript holds beside tensors and submodules, told in few words."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch

from tracehouse.introspection import user_lines
from tracehouse.torchscript import tensor_constants

_VALUE_MAX_CHARACTERS = 100
# Of a list: one of a million numbers would take a second to be told, and is then cut.
_ITEMS_MAX = 20


class Attribute(NamedTuple):
    name: str
    type: str
    value: Any


def attributes_of(module: torch.jit.ScriptModule) -> Iterator[Attribute]:
    """Not those of its submodules."""
    concrete: Any = torch._C.ConcreteModuleType.from_jit_type(module._c._type())
    for name, (kind, _) in sorted(concrete.get_attributes().items()):
        # torch has this one for itself, in every module.
        if kind.kind() != "TensorType" and name != "_is_full_backward_hook":
            yield Attribute(name, kind.annotation_str, module._c.getattr(name))


def count_tensor_values(module: torch.jit.ScriptModule) -> int:
    """How many there are in the tensors among them."""
    return sum(_count(attribute.value) for attribute in attributes_of(module) if "Tensor" in attribute.type)


def shorten_value(value: Any) -> str:
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
