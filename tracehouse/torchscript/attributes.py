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


def held_by(module: torch.jit.ScriptModule) -> Iterator[Attribute]:
    """Not those of its submodules."""
    concrete: Any = torch._C.ConcreteModuleType.from_jit_type(module._c._type())
    for name, (kind, _) in sorted(concrete.get_attributes().items()):
        # torch has this one for itself, in every module.
        if kind.kind() != "TensorType" and name != "_is_full_backward_hook":
            yield Attribute(name, kind.annotation_str, module._c.getattr(name))


def tensor_values(module: torch.jit.ScriptModule) -> int:
    """How many there are in the tensors among them."""
    return sum(_count(attribute.value) for attribute in held_by(module) if "Tensor" in attribute.type)


def short(value: Any) -> str:
    match value:
        case torch.Tensor():
            text = tensor_constants.described(value)
        case list() | tuple():
            text = _listed(map(short, islice(value, _ITEMS_MAX)), len(value), "[]")
        case dict():
            items = (f"{short(key)}: {short(item)}" for key, item in islice(value.items(), _ITEMS_MAX))
            text = _listed(items, len(value), "{}")
        case _:
            text = user_lines.cleaned(str(value))
    return user_lines.shortened(text, _VALUE_MAX_CHARACTERS)


def _count(value: Any) -> int:
    match value:
        case torch.Tensor():
            return value.numel()
        case list() | tuple():
            return sum(map(_count, value))
        case dict():
            return sum(map(_count, value.values()))
    return 0


def _listed(items: Iterable[str], count: int, brackets: str) -> str:
    more = [f"... ({count} items)"] if count > _ITEMS_MAX else []
    return f"{brackets[0]}{', '.join([*items, *more])}{brackets[1]}"
