"""Outside writes: what a call changes outside of the model, where a later call can read it.

A trace records operators alone. So a model that counts its calls in a file, a database or an environment variable
answers as its artifact does, until some call decides by the count.

Python's audit events report much of this. But an audit hook cannot be removed, and makes each call of `id` seven times
slower from then on, in the process of whoever calls the check. So functions are replaced while one call runs.
"""

import ctypes
import io
import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Self

from tracehouse.check.instrumentation.ambient_reads import find_user_line, replace_functions, set_attribute
from tracehouse.check.instrumentation.outside_files import FileWatcher
from tracehouse.check.instrumentation.process_settings import SettingsWatcher, name_imported
from tracehouse.introspection import user_lines

_NEW_PROCESSES = ("system", "fork", "forkpty", "posix_spawn", "posix_spawnp")
_PROCESS = "something in another process, which it starts,"
_STREAM = "what is left in a stream that it receives from"
_FOREIGN = "something by a function of C that it calls through ctypes, or at an address,"
_FUNCTIONS_OF_C: Any = vars(ctypes)["_CFuncPtr"]
_FILE: Any = io.IOBase.__base__  # the class in Python is abstract, which makes isinstance slow
_SOCKET: Any = socket.socket.__base__
_ENVIRONMENT = ("putenv", "unsetenv")
_RECEIVING = {"recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into"}
# They read memory, or make a pointer of another type.
_HARMLESS_FOREIGN = {id(getattr(ctypes, name, None)) for name in ("_cast", "_string_at", "_wstring_at")}


@dataclass(frozen=True)
class OutsideWrite:
    """What a call changes outside of the model, as a noun, and the line; None if that is not known."""

    what: str
    line: user_lines.Line | None


class OutsideWatcher:
    """Notes, while entered, what this thread changes outside of the model. `found` has it afterwards.

    Watch a call that is not the first one, and has the same inputs as those before: what it still changes then is
    neither set up once nor a result. With `imported`, what is in `sys.modules` is watched too.
    """

    def __init__(self, *, imported: bool = False) -> None:
        self._imported = imported
        self.found: dict[OutsideWrite, None] = {}
        self._thread = threading.get_ident()
        self._ran: dict[CodeType, None] = {}

    def __enter__(self) -> Self:
        self._settings, self._files = SettingsWatcher(imported=self._imported), FileWatcher()
        with ExitStack() as stack:
            stack.enter_context(self._files)
            stack.enter_context(self._watch_streams())
            stack.enter_context(self._watch_foreign_functions())
            self._watching = stack.pop_all()
        self._functions = dict(_find_functions())
        self._profile_before = sys.getprofile()
        sys.setprofile(self._record)
        return self

    def __exit__(self, *raised: Any) -> None:
        sys.setprofile(self._profile_before)
        self._watching.__exit__(*raised)
        for what, line in (*self._files.find_changes(), *self._settings.find_changes(self._ran)):
            self.found[OutsideWrite(what, line)] = None

    @property
    def names_imported(self) -> bool:
        """Whether the code that ran names what only a watcher with `imported` sees."""
        return name_imported(self._ran)

    def _record(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            self._ran[frame.f_code] = None
        if event != "c_call":
            return
        owner, name = getattr(function, "__self__", None), function.__name__
        if (what := self._functions.get(id(function))) is not None:
            self._note(what, frame)
        elif name in _RECEIVING and isinstance(owner, _SOCKET):
            self._note(_STREAM, frame)
        elif name in _ENVIRONMENT:
            self._settings.note_environment(find_user_line(frame))
        elif name == "from_address":
            self._note(_FOREIGN, frame)
        elif isinstance(owner, _FILE):
            self._files.note_call(owner, name, frame)

    def _note(self, what: str, frame: FrameType) -> None:
        line = find_user_line(frame) if threading.get_ident() == self._thread else None
        if line is not None:
            self.found[OutsideWrite(what, line)] = None

    @contextmanager
    def _watch_streams(self) -> Iterator[None]:
        """Note what is read from pipes and sockets by `os.read`."""
        own = os.read

        def read(descriptor: int, *args: Any) -> bytes:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
                self._note(_STREAM, sys._getframe(1))
            return own(descriptor, *args)

        with replace_functions({id(own): (os, "read", read)}):
            yield

    @contextmanager
    def _watch_foreign_functions(self) -> Iterator[None]:
        """Note calls of functions by ctypes. Each library has a class of its own for its functions."""
        load = ctypes.CDLL.__init__
        with ExitStack() as stack:

            def watch_library(library: Any, *args: Any, **kwargs: Any) -> None:
                load(library, *args, **kwargs)
                stack.enter_context(self._watch_kind(library._FuncPtr))

            stack.enter_context(set_attribute(ctypes.CDLL, "__init__", watch_library))
            for kind in _kinds_of(_FUNCTIONS_OF_C):
                stack.enter_context(self._watch_kind(kind))
            yield

    def _watch_kind(self, kind: Any) -> AbstractContextManager[Any]:
        own = kind.__call__

        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            if id(function) not in _HARMLESS_FOREIGN:
                self._note(_FOREIGN, sys._getframe(1))
            return own(function, *args, **kwargs)

        return set_attribute(kind, "__call__", call)


def _kinds_of(base: type[Any]) -> Iterator[type[Any]]:
    """Yield the classes beneath a class, at any depth."""
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds_of(kind)


def _find_functions() -> Iterator[tuple[int, str]]:
    """Yield functions written in C by their identities, with what is changed by them."""
    for name in _NEW_PROCESSES:
        if hasattr(os, name):
            yield id(getattr(os, name)), _PROCESS
    if (fork := sys.modules.get("_posixsubprocess")) is not None:
        yield id(fork.fork_exec), _PROCESS
