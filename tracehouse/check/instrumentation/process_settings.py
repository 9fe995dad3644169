"""Process settings: what belongs to the process and not to the model, such as its environment or its directory.

A call that leaves one of them otherwise than it found it, on the same inputs as before, counts in it.
"""

import builtins
import decimal
import dis
import gc
import locale
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from tracehouse.eager.state_marks import mark_value
from tracehouse.introspection import user_lines

_MISSING = object()


def _read_limits() -> Any:
    import resource  # Windows has none

    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name: resource.getrlimit(getattr(resource, name)) for name in names}


def _read_decimal() -> Any:
    context = decimal.getcontext()
    return context.prec, context.rounding, context.Emin, context.Emax


def _read_handlers() -> Any:
    return [signal.getsignal(one) for one in sorted(signal.valid_signals())]


def _read_mask() -> Any:
    """Return the mask of new files. `os.umask` tells it only by setting another, which other threads would see."""
    with open("/proc/self/status") as status:  # Linux alone has it
        return next(line for line in status if line.startswith("Umask"))


def _read_objects() -> Any:
    """Return the marks of what is in `sys.modules` and is no module, and the names of modules that no import made."""
    every: list[tuple[Any, Any]] = [*sys.modules.items()]
    objects = {key: mark_value(one) for key, one in every if not issubclass(type(one), ModuleType) and one is not None}
    made = {key for key, one in every if type(one) is ModuleType and vars(one).get("__spec__") is None}
    return objects, made


# Each setting: how it is read, and the names by which code changes it.
_SETTINGS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "the working directory": (os.getcwd, ("chdir", "fchdir")),
    "the recursion limit": (sys.getrecursionlimit, ("setrecursionlimit",)),
    "the switch interval": (sys.getswitchinterval, ("setswitchinterval",)),
    "the limits of the process": (_read_limits, ("setrlimit",)),
    "the number of torch's threads": (torch.get_num_threads, ("set_num_threads",)),
    "torch's default dtype": (torch.get_default_dtype, ("set_default_dtype",)),
    "the precision of matrix products": (torch.get_float32_matmul_precision, ("set_float32_matmul_precision",)),
    "the warning filters": (lambda: list(warnings.filters), ("filterwarnings", "simplefilter", "filters")),
    "the level of all logging": (lambda: logging.root.manager.disable, ("disable",)),
    "the thresholds of the garbage collector": (gc.get_threshold, ("set_threshold",)),
    "the locale": (lambda: locale.setlocale(locale.LC_ALL), ("setlocale",)),
    "the context of decimals": (_read_decimal, ("prec", "setcontext", "getcontext")),
    "NumPy's handling of errors": (np.geterr, ("seterr",)),
    "NumPy's function for errors": (np.geterrcall, ("seterrcall",)),
    "the size of NumPy's buffers": (np.getbufsize, ("setbufsize",)),
    "how NumPy prints": (np.get_printoptions, ("set_printoptions",)),
    "how torch prints": (lambda: vars(torch._tensor_str.PRINT_OPTS).copy(), ("set_printoptions",)),
    "the handlers of signals": (_read_handlers, ("signal",)),
    "the mask of new files": (_read_mask, ("umask",)),
    "the priority of the process": (lambda: os.getpriority(os.PRIO_PROCESS, 0), ("nice", "setpriority")),
    "the default timeout of sockets": (socket.getdefaulttimeout, ("setdefaulttimeout",)),
    "the module path": (lambda: list(sys.path), ("path",)),
}
# To read it touches every module, and so takes a copy of a page for each in a process that shares them.
_IMPORTED: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "an object in sys.modules": (_read_objects, ("modules",)),
}


def name_imported(ran: Collection[CodeType]) -> bool:
    """Whether code of the user's names what only a watcher with `imported` sees."""
    return any(_find_line_with(words, ran) for _, words in _IMPORTED.values())


class SettingsWatcher:
    """Remembers the settings of the process and what the source's modules find in other modules, when it is made.

    With `imported`, what is in `sys.modules` too.
    """

    def __init__(self, *, imported: bool = False) -> None:
        self._read = {**_SETTINGS, **_IMPORTED} if imported else _SETTINGS
        self._before = _read_settings(self._read)
        self._environment_line: user_lines.Line | None = None

    def note_environment(self, line: user_lines.Line | None) -> None:
        """Note that a line changes the environment."""
        self._environment_line = self._environment_line or line

    def find_changes(self, ran: Collection[CodeType]) -> Iterator[tuple[str, user_lines.Line]]:
        """Yield each setting that is otherwise now, as a noun, and the line that changes it, in the code that `ran`.

        What no line of the user's may have changed is left out: the check and other threads change it.
        """
        now = _read_settings(self._read)
        for key in self._before.keys() | now.keys():
            before, after = self._before.get(key, _MISSING), now.get(key, _MISSING)
            if before is not after and not _is_equal(before, after):
                name, words = key
                line = self._environment_line if "environ" in words else None
                if line := line or _find_line_with(words, ran):
                    yield name, line


def _read_settings(
    every: Mapping[str, tuple[Callable[[], Any], tuple[str, ...]]],
) -> dict[tuple[str, Collection[str]], Any]:
    settings: dict[tuple[str, Collection[str]], Any] = {}
    for name, (read, words) in every.items():
        with suppress(Exception):  # a setting that this system or a patched module does not have
            settings[name, words] = read()
    for variable, value in os.environ.items():
        settings[f"the environment variable {variable!r}", (variable, "environ", "environb", "putenv")] = value
    for name, logger in [*logging.root.manager.loggerDict.items(), ("root", logging.root)]:
        if isinstance(logger, logging.Logger):
            settings[f"the level of the logger {name!r}", ("setLevel", "disabled")] = logger.level, logger.disabled
    for module in _modules_of_source():
        for attribute, value in list(vars(module).items()):
            if not attribute.startswith("_") and not isinstance(value, ModuleType | FunctionType | type):
                settings[f"{module.__name__}.{attribute}", (attribute,)] = value
    return settings


def _modules_of_source() -> list[ModuleType]:
    """Return the modules that the source's modules name and that are none of them."""
    own = [*user_lines.submitted_modules().values()]
    named = [value for module in own for value in vars(module).values() if type(value) is ModuleType]
    every = {id(module): module for module in (builtins, sys, *named)}
    return [module for module in every.values() if module not in own]


def _is_equal(before: Any, after: Any) -> bool:
    try:
        return bool(before == after)
    except Exception:  # noqa: BLE001 - an array, or an object of the model's own
        return False


def _find_line_with(words: Collection[str], ran: Collection[CodeType]) -> user_lines.Line | None:
    """Return the first line of the user's code that has one of the words, as a name or a text; else None.

    A word that comes earlier counts more.
    """
    own = [code for code in ran if user_lines.is_user(code.co_filename)]
    found = [(one, code) for code in own for one in dis.get_instructions(code)]
    found.sort(key=lambda pair: pair[0].opname != "STORE_ATTR")  # what assigns comes before what only names it
    for word in words:
        for instruction, code in found:
            named, positions = instruction.argval, instruction.positions
            if type(named) is str and named == word and positions is not None and positions.lineno is not None:
                return user_lines.line_at(code.co_filename, positions.lineno)
    return None
