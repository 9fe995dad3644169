"""A call's arguments, walked as the contract says that they nest: its tensors are read, and what is baked in compared.

An answer must never be one to other arguments than those that were sent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pydantic import JsonValue

from tracehouse.contract.contract import MethodContract
from tracehouse.contract.key_orders import KEYWORDS, check_key_order, check_key_orders_within
from tracehouse.contract.structure import (
    BakedLeaf,
    DictNode,
    FixedLeaf,
    ListNode,
    Structure,
    TensorLeaf,
    TupleNode,
    means_same_value,
    tensors_of,
)
from tracehouse.errors import BakedArgument, MissingInput, StructureMismatch, UnexpectedInput

Read = TypeVar("Read")


class Values(Protocol):
    """How values show what they are: those of JSON, or Python's own. `a_list` and `a_dict` are their words for two."""

    a_list: str
    a_dict: str

    def items_of(self, value: Any, *, is_tuple: bool) -> Sequence[Any] | None:
        """Return the items of a list, or of what stands for a tuple; None if it is none."""

    def entries_of(self, value: Any) -> Mapping[str, Any] | None:
        """Return the entries of a dict; None if it is none."""

    def as_json(self, value: Any) -> JsonValue:
        """Return a value outside of tensors as JSON has it."""

    def describe(self, value: Any) -> str:
        """Return a short text for a value of any size."""


@dataclass(frozen=True, slots=True)
class CallWalk(Generic[Read]):
    """Walks the arguments of a method. `read` makes something of a tensor's value and its input's name."""

    method: MethodContract
    key_orders: Mapping[str, Sequence[str]]
    values: Values
    read: Callable[[Any, str], Read]

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Read]:
        """Yield what is read of each tensor, in the order of the arguments. Raises a ContractViolation."""
        given = self._by_name(args, kwargs)
        check_key_order(self.key_orders, kwargs, KEYWORDS)
        for argument in self.method.arguments:
            if argument.name in given:
                yield from self.within(given[argument.name], argument.structure, argument.name)

    def within(self, value: Any, structure: Structure, path: str) -> Iterator[Read]:
        """Yield what is read of each tensor in a value. The structure limits the depth of the recursion, not the
        value. Raises a ContractViolation."""
        match structure:
            case TensorLeaf():
                yield self.read(value, structure.tensor)
            case BakedLeaf():
                self._check_value(value, structure.baked, path, "was traced, and that is baked in")
            case FixedLeaf():
                self._check_value(value, structure.fixed, path, "was checked, and nothing else was tried")
            case ListNode():
                yield from self._items(value, structure.list, path, is_tuple=False)
            case TupleNode():
                yield from self._items(value, structure.tuple, path, is_tuple=True)
            case DictNode():
                yield from self._entries(value, structure.mapping, path)

    def _by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = [argument.name for argument in self.method.arguments]
        if len(args) > len(names):
            raise UnexpectedInput(
                f"{len(args)} arguments were sent, and the contract has {len(names)}",
                expected=len(names), actual=len(args), inputs=names,
            )  # fmt: skip
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise UnexpectedInput(
                    f"there is no input {self.values.describe(name)}", input=name[:80], inputs=sorted(names)
                )
            if name in given:
                raise UnexpectedInput(f"argument {name!r} is in args and in kwargs", input=name, inputs=names)
            given[name] = value
        return given

    def _check_value(self, value: Any, known: JsonValue, path: str, when: str) -> None:
        plain = self.values.as_json(value)
        if not means_same_value(plain, known):
            raise BakedArgument(
                f"{path!r} was {known!r} when the model {when}",
                input=path, expected=known, actual=self.values.describe(value),
            )  # fmt: skip
        check_key_orders_within(self.key_orders, plain, path)

    def _items(self, value: Any, inner: Sequence[Structure], path: str, *, is_tuple: bool) -> Iterator[Read]:
        items = self.values.items_of(value, is_tuple=is_tuple)
        if items is None or len(items) != len(inner):
            raise self._mismatch(path, f"{self.values.a_list} of {len(inner)}", value)
        for place, (item, structure) in enumerate(zip(items, inner, strict=True)):
            yield from self.within(item, structure, f"{path}.{place}")

    def _entries(self, value: Any, inner: Mapping[str, Structure], path: str) -> Iterator[Read]:
        entries = self.values.entries_of(value)
        if entries is None or not entries.keys() <= inner.keys():
            raise self._mismatch(path, f"{self.values.a_dict} of {sorted(inner)}", value)
        check_key_order(self.key_orders, entries, path)
        for key, structure in inner.items():
            if key in entries:
                yield from self.within(entries[key], structure, f"{path}.{key}")
            elif any(tensors_of(structure)):  # without tensors, the artifact has all of it baked in
                raise MissingInput(f"input {f'{path}.{key}'!r} is missing", input=f"{path}.{key}")

    def _mismatch(self, path: str, expected: str, value: Any) -> StructureMismatch:
        actual = self.values.describe(value)
        return StructureMismatch(f"{path!r} is {expected}, not {actual}", input=path, expected=expected, actual=actual)
