"""Changing values: what a line of the model finds otherwise in a second call on the same inputs, such as a count.

Both calls have the same inputs and the same seed. So what differs is left by the calls before, or comes from outside:
what another package keeps, the statistics of a cache, the name of a thread. Wherever a model may count its calls, its
code has to look at the count some time.
"""

import builtins
import math
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import torch

from tracehouse.check.instrumentation import ambient_reads
from tracehouse.check.instrumentation.followed_code import Follower
from tracehouse.introspection import user_lines

_Site = tuple[int, int]  # the identity of a code object, and the instruction in it
_Change = Callable[[Any], Any]

_NOTED = (bool, int, float, np.number, np.bool_, str)
_CONTAINERS = (list, tuple, dict, set, frozenset)
_NOTED_MAX = 100_000  # values of one call: a choice, so that a long loop does not fill the memory
_COMPARED_MAX = 8  # of the numbers and the texts each that the model compares with something
_FAR = (1_000, 1_000_000)  # so many steps on: choices
_LONGER = "x" * 1_000
_ROUNDING = 1e-6  # floats that are relatively as close may be the same sum, added up in another order


@dataclass(frozen=True)
class ChangingValue:
    """A value that was another one in the second call: its line, and what it was in both calls.

    `compared` are the numbers and the texts that the model compares with something.
    """

    line: user_lines.Line
    first: Any
    second: Any
    compared: tuple[Any, ...]
    site: _Site

    def changes(self) -> Iterator[_Change]:
        """Yield what makes other values of it that later calls may find."""
        if isinstance(self.second, bool | np.bool_):
            yield lambda value: not value
            return
        if is_text := isinstance(self.second, str):
            yield lambda value: value + _LONGER
        else:
            yield from map(self._step_on, _FAR)
        yield from (partial(_replace, other) for other in self.compared if isinstance(other, str) == is_text)

    def _step_on(self, times: int) -> _Change:
        return lambda value: value + (self.second - self.first) * times


class _Passing(Follower):
    """A follower through which all values pass that may come from outside; `_pass` returns each, or another one."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        return value if _is_known(function, args) else self._pass_on(sys._getframe(1), value)

    def take_attribute(self, owner: Any, name: str) -> Any:
        return self._pass_on(sys._getframe(1), getattr(owner, name))

    def take_item(self, container: Any, key: Any) -> Any:
        return self._pass_on(sys._getframe(1), container[key])

    def compare(self, name: str, left: Any, right: Any) -> Any:
        self._note_compared(left, right)
        return self._pass_on(sys._getframe(1), super().compare(name, left, right))

    def test(self, value: Any) -> Any:
        return self._pass_on(sys._getframe(1), bool(value)) if type(value) in _CONTAINERS else value

    def join(self, *parts: str) -> Any:
        return self._pass_on(sys._getframe(1), super().join(*parts))

    def _pass_on(self, frame: FrameType, value: Any) -> Any:
        if not isinstance(value, _NOTED) or threading.get_ident() != self._thread:
            return value
        return self._pass(frame, (id(frame.f_code), frame.f_lasti), value)

    def _pass(self, frame: FrameType, site: _Site, value: Any) -> Any:
        raise NotImplementedError

    def _note_compared(self, *values: Any) -> None:
        pass


class ValueRecorder(_Passing):
    """Notes what each place of the model's code finds."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: dict[_Site, list[Any]] = {}
        self._lines: dict[_Site, user_lines.Line | None] = {}
        self._compared: dict[Any, None] = {}
        self._count = 0

    def find_changing(self, later: "ValueRecorder") -> list[ChangingValue]:
        """Return the first value of each place that is another one in a later call."""
        compared = _select((*(self._compared | later._compared),))
        found = []
        for site, values in self._noted.items():
            line = self._lines[site]
            for first, second in zip(values, later._noted.get(site, ()), strict=False):
                if line is not None and not _is_same(first, second):
                    found.append(ChangingValue(line, first, second, compared, site))
                    break
        return found

    def _pass(self, frame: FrameType, site: _Site, value: Any) -> Any:
        if self._count < _NOTED_MAX:
            self._count += 1
            self._noted.setdefault(site, []).append(value)
            if site not in self._lines:
                self._lines[site] = user_lines.line_of_frame(frame)
        return value

    def _note_compared(self, *values: Any) -> None:
        self._compared.update(dict.fromkeys(one for one in values if type(one) in (int, float, str)))


class ValueChanger(_Passing):
    """Hands a changing value over as another one, wherever its place finds one."""

    def __init__(self, changing: ChangingValue, change: _Change) -> None:
        super().__init__()
        self._changing = changing
        self._change = change

    def _pass(self, _: FrameType, site: _Site, value: Any) -> Any:
        return self._change(value) if site == self._changing.site else value


def _replace(other: Any, value: Any) -> Any:
    return type(value)(other)


def _is_known(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether other checks look after what the function returns: a tensor's values, a clock, or an address."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.Tensor) or any(isinstance(one, torch.Tensor) for one in args):
        return True
    return function is builtins.id or ambient_reads.reads_process(function)


def _is_same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return True  # no step leads from one to the other
    if isinstance(first, float | np.floating):
        return math.isclose(first, second, rel_tol=_ROUNDING) or (math.isnan(first) and math.isnan(second))
    return bool(first == second)


def _select(compared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a few of the numbers and texts, those that were compared first."""
    texts = [one for one in compared if isinstance(one, str)]
    numbers = [one for one in compared if not isinstance(one, str)]
    return (*numbers[:_COMPARED_MAX], *texts[:_COMPARED_MAX])
