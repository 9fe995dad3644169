"""What a value may be compared with: the numbers that a function names, and those that it has at hand.

A branch that one value alone takes, as the token that ends a text, is found where that value is put in the place of
what is read. It stands in the code, or in the function's variables, its objects' attributes, the keys of its tables.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

_DEPTH = 4  # of containers and objects in one another
_LOOKED_AT_MAX = 2000
_NUMBERS_MAX = 24
_SEQUENCES_MAX = 8
_SEQUENCE_MAX = 64  # elements; of larger tensors, too, none is likely to be compared with
_LARGEST = 2**62
_CALLERS = 2  # a helper compares with what it is handed


@dataclass(frozen=True)
class Comparands:
    """The nearest first. `sequences` are what a list, or a part of it, may be compared with."""

    numbers: tuple[float, ...] = ()
    sequences: tuple[tuple[float, ...], ...] = ()


NO_COMPARANDS = Comparands()


def collect_comparands(frame: FrameType) -> Comparands:
    numbers: dict[float, None] = {}
    sequences: dict[tuple[float, ...], None] = {}
    with suppress(Exception):  # submitted code: what it has at hand may refuse to be looked at
        for value in islice(_nearest_first(_at_hand(frame)), _LOOKED_AT_MAX):
            if _is_number(value):
                numbers[float(value)] = None
            elif (
                isinstance(value, tuple | list | Set)
                and 1 < len(value) <= _SEQUENCE_MAX
                and all(map(_is_number, value))
            ):
                sequences[tuple(map(float, value))] = None
    return Comparands((*islice(numbers, _NUMBERS_MAX),), (*islice(sequences, _SEQUENCES_MAX),))


@lru_cache(maxsize=4096)
def collect_constants(code: CodeType) -> frozenset[float]:
    """The numbers that a function names."""
    constants = [*code.co_consts, *(item for one in code.co_consts if isinstance(one, tuple) for item in one)]
    return frozenset(float(one) for one in constants if _is_number(one))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _LARGEST


def _at_hand(frame: FrameType) -> Iterator[Any]:
    """Of a function that runs, and then of those that called it. A variable that is a tensor may be an input."""
    running: FrameType | None = frame
    for _ in range(_CALLERS + 1):
        if running is None:
            return
        codes = [*_with_inner(running.f_code)]
        yield from (constant for code in codes for constant in code.co_consts)
        yield from (value for value in running.f_locals.values() if not isinstance(value, torch.Tensor))
        yield from (running.f_globals[name] for code in codes for name in code.co_names if name in running.f_globals)
        running = running.f_back


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    """Comprehensions have code of their own."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


def _nearest_first(values: Iterator[Any]) -> Iterator[Any]:
    seen: set[int] = set()
    waiting = deque((value, 0) for value in values)
    while waiting:
        value, depth = waiting.popleft()
        yield value
        if depth < _DEPTH and id(value) not in seen:
            seen.add(id(value))
            waiting.extend((held, depth + 1) for held in islice(_held_by(value), _LOOKED_AT_MAX))


def _held_by(value: Any) -> Iterator[Any]:
    match value:
        case torch.Tensor():
            if value.numel() <= _SEQUENCE_MAX and torch._C._get_tracing_state() is None:
                yield value.numpy(force=True).tolist()
        case np.ndarray():
            yield value.tolist() if value.size <= _SEQUENCE_MAX else []
        case str() | bytes() | ModuleType() | CodeType():
            return
        case Mapping():
            yield from value
            yield from value.values()
        case list() | tuple() | Set() | deque():
            yield from value
        case FunctionType() | MethodType():
            yield from (cell.cell_contents for cell in getattr(value, "__closure__", None) or ())
        case torch.nn.Module():
            yield from (held for name, held in vars(value).items() if not name.startswith("_"))
            yield from value._buffers.values()
            yield from (held for name, held in vars(type(value)).items() if not name.startswith("_"))
        case type():
            yield from (held for name, held in vars(value).items() if not name.startswith("_"))
        case _:
            yield from getattr(value, "__dict__", {}).values()
