"""Asked settings: functions by which a model asks for a setting of its process, and what another process may answer."""

import gc
import importlib
import locale
import logging
import os
import platform
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch

from tracehouse.eager.memory_files import MemoryFiles
from tracehouse.introspection import user_lines

DEFAULT_DTYPE = "torch.get_default_dtype"

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class AskedSetting:
    """A function that tells a setting, where it lies, and what it may tell elsewhere, computed from what it tells here.

    The changes are by the words that describe them.
    """

    name: str
    owner: Any
    attribute: str
    changes: dict[str, Change]

    @property
    def function(self) -> Any:
        """The function as it is now: files in memory have a working directory of their own."""
        return getattr(self.owner, self.attribute)

    def change_for_users(self, change: Change) -> Any:
        """Return the function with its answers changed for the user's code alone: torch and Python ask it, too."""
        own = self.function

        @wraps(own)
        def function(*args: Any, **kwargs: Any) -> Any:
            answer = own(*args, **kwargs)
            return change(answer) if is_asked_by_user(sys._getframe(1)) else answer

        return function


def is_asked_by_user(frame: FrameType | None) -> bool:
    """Whether the frame that calls is the user's own."""
    return frame is not None and user_lines.is_user(frame.f_code.co_filename)


def _always(answer: Any) -> Change:
    return lambda _: answer


def _enlarge(numbers: dict[str, int]) -> dict[str, int]:
    return {name: 1000 * number + 10**9 for name, number in numbers.items()}


def _multiply(answer: Any) -> Any:
    """Return a named tuple of numbers, each of them far larger."""
    return type(answer)([number * 1000 + 1000 for number in answer])


_MANY: dict[str, Change] = {"a far larger one": lambda number: 100 * (number or 1), "1": lambda _: 1}
_OTHER: dict[str, Change] = {"another one": lambda _: "other"}
_SETTINGS: tuple[tuple[Any, str, dict[str, Change]], ...] = (
    (torch, "get_num_threads", _MANY),
    (torch, "get_num_interop_threads", _MANY),
    # Where a model makes tensors of it, their values stay the same in a wider datatype.
    (torch, "get_default_dtype", {"torch.float64": lambda _: torch.float64}),
    (sys, "getrecursionlimit", _MANY),
    (os, "cpu_count", _MANY),
    (os, "getpid", {"another one": lambda number: number + 2**22}),
    (os, "getcwd", {"/": lambda _: "/", "a folder deep inside": lambda folder: f"{folder}/of/another/process"}),
    (gc, "get_count", {"far larger ones": lambda counts: tuple(100 * one + 100 for one in counts)}),
    (gc, "get_stats", {"far larger numbers": lambda stats: [_enlarge(one) for one in stats]}),
    (os, "getppid", {"another one": lambda number: number + 2**22}),
    (os, "getloadavg", {"a far larger one": lambda loads: tuple(100 * one + 100 for one in loads)}),
    (threading, "active_count", _MANY),
    (torch, "get_float32_matmul_precision", {one: _always(one) for one in ("highest", "high", "medium")}),
    (torch, "are_deterministic_algorithms_enabled", {"the other one": lambda enabled: not enabled}),
    (np, "geterr", {"errors that raise": lambda handling: dict.fromkeys(handling, "raise")}),
    (gc, "isenabled", {"the other one": lambda enabled: not enabled}),
    (socket, "gethostname", _OTHER),
    (platform, "node", _OTHER),
    (locale, "setlocale", _OTHER),
    (locale, "getlocale", {"another one": lambda _: ("other", "other")}),
    (logging.Logger, "isEnabledFor", {"the other one": lambda enabled: not enabled}),
    (logging.Logger, "getEffectiveLevel", {"DEBUG": lambda _: logging.DEBUG, "CRITICAL": lambda _: logging.CRITICAL}),
    ("resource", "getrusage", {"far larger numbers": _multiply}),
    (os, "sysconf", _MANY),
    (os, "sched_getaffinity", {"many processors": lambda _: {*range(1000)}, "one processor": lambda _: {0}}),
    (shutil, "disk_usage", {"a full disk": lambda disk: disk._replace(free=0)}),
)


def _find_settings() -> dict[str, AskedSetting]:
    found = {}
    for where, attribute, changes in _SETTINGS:
        with suppress(ImportError):  # another system
            owner = importlib.import_module(where) if isinstance(where, str) else where
            module = owner.__module__ + "." if isinstance(owner, type) else ""
            name = f"{module}{owner.__name__}.{attribute}"
            if hasattr(owner, attribute):
                found[name] = AskedSetting(name, owner, attribute, changes)
    return found


ASKED_SETTINGS = _find_settings()
_BY_CODE = {
    one.function.__code__: name for name, one in ASKED_SETTINGS.items() if hasattr(one.function, "__code__")
} | {MemoryFiles._working_folder.__code__: "os.getcwd"}  # of functions written in Python
_BY_IDENTITY = {id(one.function): name for name, one in ASKED_SETTINGS.items()}
CODES: tuple[CodeType, ...] = tuple(_BY_CODE)


def setting_of_code(code: CodeType) -> str | None:
    """Return the name of the setting that a function written in Python tells; None for any other function."""
    return _BY_CODE.get(code)


def setting_of_function(function: Any) -> str | None:
    """Return the name of the setting that a function written in C tells; None for any other function."""
    return _BY_IDENTITY.get(id(function))
