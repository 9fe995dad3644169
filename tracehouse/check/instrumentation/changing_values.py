"""Changing values: what a line of the model finds otherwise in a second call on the same inputs, such as a count.

Both calls have the same inputs and the same seed. So what differs is left by the calls before, or comes from outside:
what another package keeps, the statistics of a cache, the name of a thread. Wherever a model may count its calls, its
code has to look at the count some time.
"""

import builtins
import math
import operator
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch

from tracehouse.check.instrumentation import ambient_reads
from tracehouse.check.instrumentation.followed_code import Follower
from tracehouse.introspection import user_lines

# The identity of a code object, the instruction in it, and which of its values: what it gives, or one of its operands.
_Site = tuple[int, int, int]
_Change = Callable[[Any], Any]

_FOUND, _LEFT, _RIGHT, _COMPUTED = range(4)
_COUNTS = (int, complex, Decimal, Fraction)
_NUMBERS = (*_COUNTS, float, np.number, np.bool_)
_NUMBERS_AND_TEXTS = (*_NUMBERS, str)
_COUNTS_AND_TEXTS = (*_COUNTS, str)
_SEQUENCES = (list, tuple, deque, bytes, bytearray)
_CONTAINERS = (*_SEQUENCES, dict, set, frozenset)
_GETTERS = ("get", "setdefault")
_NOTED_MAX = 100_000  # values of one call: a choice, so that a long loop does not fill the memory
_OTHERS_MAX = 16  # of the numbers and the texts each that a value is compared with, or its code names: a choice
_ITEMS_MAX = 4  # of a container in which a value is looked for: a choice
_FAR = (1_000, 1_000_000)  # so many steps on: choices
_LONGER = 1_000  # so many items or letters longer: a choice
_ADDRESS = 2**40  # no count of calls gets there; addresses and clocks in nanoseconds are beyond
_ROUNDING = 1e-6  # floats that are relatively as close may be the same sum, added up in another order


@dataclass(frozen=True)
class ChangingValue:
    """A value that was another one in the second call: its line, and what it was in both calls; of a container, its
    length.

    `others` are numbers and texts that the model compares it with, or that its code names.
    """

    line: user_lines.Line
    first: Any
    second: Any
    others: tuple[Any, ...]
    site: _Site

    def changes(self) -> Iterator[_Change]:
        """Yield what makes other values of it that later calls may find."""
        if isinstance(self.second, bool | np.bool_):
            yield lambda value: not value
            return
        if isinstance(self.second, _Length):
            yield _lengthen if self.second > self.first else _clear
            return
        if is_text := isinstance(self.second, str):
            yield lambda value: value + "x" * _LONGER
        else:
            yield from map(self._step_on, _FAR)
        yield from (partial(_replace, other) for other in self.others if isinstance(other, str) == is_text)

    def _step_on(self, times: int) -> _Change:
        return lambda value: value + (self.second - self.first) * times


class _Length(int):
    """The length of a container, which stands for it."""

    def __repr__(self) -> str:
        return f"{int(self)} items"


class _Passing(Follower):
    """A follower through which all values pass that may come from outside; `_pass` returns each, or another one."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        if isinstance(owner := getattr(function, "__self__", None), str):
            self._note_others(args)
        if function is getattr and len(args) > 1:
            self._note_place(setattr, args[0], args[1], value)
        elif isinstance(owner, dict) and args and function.__name__ in _GETTERS:
            self._note_place(operator.setitem, owner, args[0], value)
        return value if _is_known(function, args) else self._pass_on(sys._getframe(1), value)

    def take_attribute(self, owner: Any, name: str) -> Any:
        value = getattr(owner, name)
        self._note_place(setattr, owner, name, value)
        return self._pass_on(sys._getframe(1), value)

    def take_item(self, container: Any, key: Any) -> Any:
        value = container[key]
        self._note_place(operator.setitem, container, key, value)
        return self._pass_on(sys._getframe(1), value)

    def operate(self, name: str, left: Any, right: Any) -> Any:
        value = super().operate(name, left, right)
        return self._pass_operand(sys._getframe(1), _COMPUTED, value)

    def compare(self, name: str, left: Any, right: Any) -> Any:
        frame = sys._getframe(1)
        left, right = self._pass_operand(frame, _LEFT, left), self._pass_operand(frame, _RIGHT, right)
        self._note_others([left, right])
        return self._pass_on(frame, super().compare(name, left, right))

    def test(self, value: Any) -> Any:
        return self._pass_on(sys._getframe(1), bool(value)) if type(value) in _CONTAINERS else value

    def join(self, *parts: str) -> Any:
        return self._pass_on(sys._getframe(1), super().join(*parts))

    def go_through(self, values: Iterable[Any]) -> Iterable[Any]:
        passed: Iterable[Any] = self._pass_on(sys._getframe(1), values)
        return passed

    def repeat(self, values: Iterable[Any]) -> Iterable[Any]:
        passed: Iterable[Any] = self._pass_on(sys._getframe(1), values)
        return passed

    def _pass_operand(self, frame: FrameType, place: int, value: Any) -> Any:
        """Pass a value on that was computed; a float may come from a clock, and is left alone."""
        return self._pass_on(frame, value, place) if isinstance(value, _COUNTS_AND_TEXTS) else value

    def _pass_on(self, frame: FrameType, value: Any, place: int = _FOUND) -> Any:
        if not (isinstance(value, _NUMBERS_AND_TEXTS) or type(value) in _CONTAINERS):
            return value
        if threading.get_ident() != self._thread or _is_address(value):
            return value
        return self._pass(frame, (id(frame.f_code), frame.f_lasti, place), value)

    def _pass(self, frame: FrameType, site: _Site, value: Any) -> Any:
        raise NotImplementedError

    def _note_others(self, values: Iterable[Any]) -> None:
        pass

    def _note_place(self, put: Callable[[Any, Any, Any], None], owner: Any, key: Any, value: Any) -> None:
        pass


class ValueRecorder(_Passing):
    """Notes what each place of the model's code finds."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: dict[_Site, list[Any]] = {}
        self._lines: dict[_Site, user_lines.Line | None] = {}
        self._codes: dict[int, CodeType] = {}  # by their identities, which they keep while they are held
        self._others: dict[Any, None] = {}
        self._count = 0

    def find_changing(self, later: "ValueRecorder") -> list[ChangingValue]:
        """Return the first value of each place that is another one in a later call."""
        pairs: dict[_Site, tuple[Any, Any]] = {}
        for site, values in self._noted.items():
            both = zip(values, later._noted.get(site, ()), strict=False)
            if (differing := next((pair for pair in both if not _is_same(*pair)), None)) is not None:
                pairs[site] = differing
        others = _select(chain(self._find_partners(pairs), self._others, later._others, self._find_constants(pairs)))
        lines = {site: line for site in pairs if (line := self._lines[site]) is not None}
        return [
            ChangingValue(line, *pairs[site], others, site)
            for site, line in lines.items()
            if not _is_derived(site, pairs)
        ]

    def _find_partners(self, changing: Iterable[_Site]) -> Iterator[Any]:
        """Yield what changing values are compared with."""
        for code, instruction, operand in changing:
            if operand in (_LEFT, _RIGHT):
                yield from self._noted.get((code, instruction, _LEFT + _RIGHT - operand), ())

    def _find_constants(self, changing: Iterable[_Site]) -> Iterator[Any]:
        """Yield the numbers that the code names in which values change."""
        for code in dict.fromkeys(code for code, *_ in changing):
            yield from (one for one in _flatten(self._codes[code].co_consts) if not isinstance(one, str))

    def _pass(self, frame: FrameType, site: _Site, value: Any) -> Any:
        if self._count < _NOTED_MAX:
            self._count += 1
            self._noted.setdefault(site, []).append(_Length(len(value)) if type(value) in _CONTAINERS else value)
            if site not in self._lines:
                self._lines[site] = user_lines.line_of_frame(frame)
                self._codes[site[0]] = frame.f_code
        return value

    def _note_others(self, values: Iterable[Any]) -> None:
        self._others.update(dict.fromkeys(_flatten(values)))


class ValueChanger(_Passing):
    """Hands a changing value over as another one, wherever its place finds one."""

    def __init__(self, changing: ChangingValue, change: _Change) -> None:
        super().__init__()
        self._changing = changing
        self._change = change
        self.given: Any = None  # what it handed over last
        self._places: list[tuple[Callable[[Any, Any, Any], None], Any, Any, Any]] = []

    def put_back(self) -> None:
        """Put the numbers and texts back that the call found in attributes and containers: it may have left others."""
        for put, owner, key, value in reversed(self._places):
            with suppress(Exception):  # submitted code, or an attribute that cannot be set
                if not _is_same(getattr(owner, key) if put is setattr else owner[key], value):
                    put(owner, key, value)

    def _pass(self, _: FrameType, site: _Site, value: Any) -> Any:
        if site != self._changing.site:
            return value
        self.given = self._change(value)
        return self.given

    def _note_place(self, put: Callable[[Any, Any, Any], None], owner: Any, key: Any, value: Any) -> None:
        if isinstance(value, _NUMBERS_AND_TEXTS) and len(self._places) < _NOTED_MAX:
            self._places.append((put, owner, key, value))


def _is_derived(site: _Site, pairs: dict[_Site, tuple[Any, Any]]) -> bool:
    """Whether a changing value was computed from what another place found, as far as can be told."""
    if site[-1] == _FOUND:
        return False
    if site[-1] == _COMPUTED:
        return any(one[-1] == _FOUND and _step_of(pairs[one]) == _step_of(pairs[site]) for one in pairs)
    return any(one[-1] != _COMPUTED and one < site and pairs[one] == pairs[site] for one in pairs)


def _step_of(pair: tuple[Any, Any]) -> Any:
    return None if isinstance(pair[0], str | bool | np.bool_) else pair[1] - pair[0]


def _replace(other: Any, value: Any) -> Any:
    return type(value)(other)


def _lengthen(container: Any) -> Any:
    """Return a copy of a container with many more items."""
    if isinstance(container, _SEQUENCES):
        return type(container)(chain(container, [*container][-1:] * _LONGER))
    if isinstance(container, dict):
        return {**container, **dict.fromkeys(range(_LONGER), next(iter(container.values()), None))}
    return type(container)(chain(container, range(_LONGER)))


def _clear(container: Any) -> Any:
    return type(container)()


def _flatten(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the numbers and texts among values, and the first ones in containers of them."""
    for value in values:
        if type(value) in (int, float, str):
            yield value
        elif type(value) in (*_CONTAINERS, range):
            yield from (one for one in islice(value, _ITEMS_MAX) if type(one) in (int, float, str))


def _is_known(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether other checks look after what the function returns: a tensor's values, a clock, or an address."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.Tensor) or any(isinstance(one, torch.Tensor) for one in args):
        return True
    return function is builtins.id or ambient_reads.reads_process(function)


def _is_address(value: Any) -> bool:
    return isinstance(value, int) and value > _ADDRESS


def _is_same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return True  # no step leads from one to the other
    if isinstance(first, float | np.floating):
        return math.isclose(first, second, rel_tol=_ROUNDING) or (math.isnan(first) and math.isnan(second))
    return bool(first == second)


def _select(others: Iterable[Any]) -> tuple[Any, ...]:
    """Return the first few of the numbers and of the texts."""
    flat = [*dict.fromkeys(_flatten(others))]
    texts = [one for one in flat if isinstance(one, str)]
    numbers = [one for one in flat if not isinstance(one, str)]
    return (*numbers[:_OTHERS_MAX], *texts[:_OTHERS_MAX])
