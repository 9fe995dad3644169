"""Comparands: the numbers that a value read out of a tensor may be compared with.

A branch that a single value takes, such as the token that ends a text, is found by putting that value in the place of
what was read. The value stands in the code, in a variable of the function, in an attribute of one of its objects or
among the keys of one of its tables.
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

_DEPTH = 4  # containers and objects inside one another are searched so deep
_VISITED_MAX = 2000
_NUMBERS_MAX = 24
_SEQUENCES_MAX = 8
_SEQUENCE_MAX = 64  # elements of a sequence or a tensor: a longer one is unlikely to be compared with
_LARGEST = 2**62
_CALLERS = 2  # a helper may compare with an argument, which stands in the function that called it


@dataclass(frozen=True)
class Comparands:
    """Numbers, and sequences of numbers, that a value or a list may be compared with; the likeliest come first."""

    numbers: tuple[float, ...] = ()
    sequences: tuple[tuple[float, ...], ...] = ()


NO_COMPARANDS = Comparands()


def collect_comparands(frame: FrameType) -> Comparands:
    """Return the numbers that the running function and its nearest callers can reach, up to fixed counts.

    The search goes breadth-first through containers and objects, so the nearest numbers come first. Nothing that an
    object raises comes out.
    """
    numbers: dict[float, None] = {}
    sequences: dict[tuple[float, ...], None] = {}
    with suppress(Exception):  # submitted code: any of its objects may raise when it is looked at
        for value in islice(_walk(_find_reachable(frame)), _VISITED_MAX):
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
    """Return the numbers that stand in the code of a function."""
    constants = [*code.co_consts, *(item for one in code.co_consts if isinstance(one, tuple) for item in one)]
    return frozenset(float(one) for one in constants if _is_number(one))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _LARGEST


def _find_reachable(frame: FrameType) -> Iterator[Any]:
    """Yield the constants, variables and globals of a running function, and then those of its callers.

    A variable that is a tensor is left out, because it may be an input.
    """
    running: FrameType | None = frame
    for _ in range(_CALLERS + 1):
        if running is None:
            return
        codes = [*_walk_codes(running.f_code)]
        yield from (constant for code in codes for constant in code.co_consts)
        yield from (value for value in running.f_locals.values() if not isinstance(value, torch.Tensor))
        yield from (running.f_globals[name] for code in codes for name in code.co_names if name in running.f_globals)
        running = running.f_back


def _walk_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the comprehensions and functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _walk_codes(constant)


def _walk(values: Iterator[Any]) -> Iterator[Any]:
    """Yield these values, then what they contain, and so on: breadth first."""
    seen: set[int] = set()
    waiting = deque((value, 0) for value in values)
    while waiting:
        value, depth = waiting.popleft()
        yield value
        if depth < _DEPTH and id(value) not in seen:
            seen.add(id(value))
            waiting.extend((item, depth + 1) for item in islice(_list_items(value), _VISITED_MAX))


def _list_items(value: Any) -> Iterator[Any]:
    """Yield what a container or an object contains; a small tensor or array yields the list of its values."""
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
            yield from (item for name, item in vars(value).items() if not name.startswith("_"))
            yield from value._buffers.values()
            yield from (item for name, item in vars(type(value)).items() if not name.startswith("_"))
        case type():
            yield from (item for name, item in vars(value).items() if not name.startswith("_"))
        case _:
            yield from getattr(value, "__dict__", {}).values()
