"""The orders of keys: a model may read the order in which the keys of a dict come, and a trace always has one order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from tracehouse.contract.structure import Argument, BakedLeaf, DictNode, FixedLeaf, Structure, items_of
from tracehouse.errors import KeyOrderMismatch
from tracehouse.frozen import Frozen

# The path of the keyword arguments that `**kwargs` takes. No argument has this name.
KEYWORDS = "**"
_KEYS_LISTED_MAX = 20


class KeyOrder(Frozen):
    """An order for the keys of one dict of a call; `path` is the dict's place in the arguments, such as `batch.0`."""

    path: str
    keys: list[str]

    def other_orders(self) -> Iterator["KeyOrder"]:
        """Yield two other orders, or one of two keys: in one of them no key has its place, and no pair is in order."""
        yield KeyOrder(path=self.path, keys=self.keys[::-1])
        if len(self.keys) > 2:
            yield KeyOrder(path=self.path, keys=[*self.keys[1:], self.keys[0]])

    def __str__(self) -> str:
        return ", ".join(self.keys[:_KEYS_LISTED_MAX]) + (", …" if len(self.keys) > _KEYS_LISTED_MAX else "")

    @property
    def subject(self) -> str:
        """Return what has the keys, as the middle of a sentence."""
        return "the keyword arguments of `**kwargs`" if self.path == KEYWORDS else f"the keys of {self.path!r}"


def key_orders_of(arguments: Iterable[Argument], keywords: Sequence[str]) -> Iterator[KeyOrder]:
    """Yield the order of each dict with two or more keys; `keywords` are the arguments that `**kwargs` takes."""
    if len(keywords) > 1:
        yield KeyOrder(path=KEYWORDS, keys=[*keywords])
    for argument in arguments:
        yield from _orders_in(argument.structure, argument.name)


def _orders_in(structure: Structure, path: str) -> Iterator[KeyOrder]:
    match structure:
        case BakedLeaf():
            yield from _orders_in_value(structure.baked, path)
        case FixedLeaf():
            yield from _orders_in_value(structure.fixed, path)
        case DictNode() if len(structure.mapping) > 1:
            yield KeyOrder(path=path, keys=[*structure.mapping])
    for key, item in items_of(structure):
        yield from _orders_in(item, f"{path}.{key}")


def _orders_in_value(value: JsonValue, path: str) -> Iterator[KeyOrder]:
    if isinstance(value, dict) and len(value) > 1:
        yield KeyOrder(path=path, keys=[*value])
    for key, item in json_items(value):
        yield from _orders_in_value(item, f"{path}.{key}")


def check_key_order(orders: Mapping[str, Sequence[str]], value: Mapping[str, Any], path: str) -> None:
    """Raise KeyOrderMismatch if the order of this dict's keys is fixed, and is another one; `orders` are by path."""
    order = dict.fromkeys(orders.get(path, ()))
    came, expected = [key for key in value if key in order], [key for key in order if key in value]
    if came != expected:
        sent, wanted = KeyOrder(path=path, keys=came), KeyOrder(path=path, keys=expected)
        raise KeyOrderMismatch(
            f"{sent.subject} came in the order {sent}, and the contract's order is {wanted}",
            input=path, expected=expected, actual=came,
        )  # fmt: skip


def check_key_orders_within(orders: Mapping[str, Sequence[str]], value: JsonValue, path: str) -> None:
    """Raise KeyOrderMismatch if that is so for any dict in a plain value, or for the value itself."""
    if isinstance(value, dict):
        check_key_order(orders, value, path)
    for key, item in json_items(value):
        check_key_orders_within(orders, item, f"{path}.{key}")


def json_items(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield the direct items of an object or a list, each with its key or its index as text."""
    match value:
        case dict():
            yield from value.items()
        case list():
            yield from ((str(place), item) for place, item in enumerate(value))
