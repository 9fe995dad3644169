"""Outside files: which files a call changes and also reads, so that they carry something to a later call.

The functions that open, change and look at files are replaced while the call runs. A file that is only written, such
as a log, carries nothing; nor does one that has the same content after the call as before, on the same inputs.
"""

import builtins
import io
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import Any, Self

import torch

from tracehouse.check.instrumentation.ambient_reads import find_user_line, replace_functions, set_attribute
from tracehouse.introspection import user_lines

_CONTENT_MAX_BYTES = 2**20  # of a larger file, only the size and the time of its last change are compared
_READ_MODES, _WRITE_MODES = set("r+"), set("wax+")
_READ, _LISTED, _WRITTEN, _SOUGHT, _ASKED = "read", "listed", "written", "sought", "asked for its status"
# What the functions of `os` do to the path that they get.
_FUNCTIONS = {
    "readlink": _READ,
    **dict.fromkeys(("stat", "lstat", "getxattr", "listxattr"), _ASKED),
    "access": _SOUGHT,
    **dict.fromkeys(("listdir", "scandir"), _LISTED),
    **dict.fromkeys(("mkdir", "mkfifo", "rmdir", "remove", "unlink", "truncate", "chmod"), _WRITTEN),
    **dict.fromkeys(("utime", "setxattr", "removexattr"), _WRITTEN),
    **dict.fromkeys(("rename", "replace", "link", "symlink"), _WRITTEN),
}
_OF_STATUS = ("chmod", "utime", "setxattr", "removexattr")
_DATABASE_ENDINGS = ("-wal", "-journal", ".db", ".dat", ".dir", ".pag")
_OF_TWO_PATHS = ("rename", "replace", "link", "symlink")
_READING = {"read", "read1", "readall", "readinto", "readline", "readlines", "tell", "__next__"}
_WRITING = {"write", "writelines", "truncate"}
# Functions of Python's that look only at whether something is at a path, and what kind of thing.
_SEEKING_MODULES = {"genericpath", "posixpath", "ntpath", "pathlib", "pathlib._local", "pathlib._abc"}
_SEEKING = {"exists", "lexists", "isfile", "isdir", "islink", "is_file", "is_dir", "is_symlink"}
# A log is written and never read; a handler that begins a new file asks how long the old one is.
_LOGGING = ("logging/__init__.py", "logging/handlers.py")


@dataclass(frozen=True)
class _Written:
    """What was at a path before the call first changed it, how that is found out, and the line that changed it."""

    before: Any
    state_of: Callable[[str], Any]
    line: user_lines.Line


class FileWatcher:
    """Notes, while entered, which files this thread changes and reads. `note_call` gets its calls of methods."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._seen: dict[str, set[str]] = {_READ: set(), _LISTED: set(), _SOUGHT: set(), _ASKED: set()}
        self._written: dict[str, _Written] = {}
        self._marked: dict[str, _Written] = {}  # files whose status is written, not their content
        self._opened: dict[int, tuple[Any, str]] = {}  # by their identities: files of this call, and their paths
        self._kept: dict[int, tuple[Any, Any, set[str], user_lines.Line]] = {}  # files that were open before

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            opened = self._watch_open(builtins.open)
            stack.enter_context(replace_functions({id(builtins.open): (builtins, "open", opened)}))
            stack.enter_context(set_attribute(io, "open", opened))
            replaced = {name: getattr(os, name) for name in _FUNCTIONS if hasattr(os, name)}
            watched = {id(own): (os, name, self._watch(name, own)) for name, own in replaced.items()}
            stack.enter_context(replace_functions(watched))
            stack.enter_context(replace_functions({id(os.open): (os, "open", self._watch_descriptor(os.open))}))
            for owner, name, place, kinds in _openers():
                own = getattr(owner, name)
                stack.enter_context(replace_functions({id(own): (owner, name, self._watch_opener(own, place, kinds))}))
            self._watching = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._watching.__exit__(*raised)

    def note_call(self, file: io.IOBase, name: str, frame: FrameType) -> None:
        """Note a call of a method of an open file, before it runs."""
        if name not in _READING | _WRITING or isinstance(file, io.StringIO | io.BytesIO):
            return
        line = self._line_of(frame)
        if line is None:
            return
        if id(file) in self._opened:
            if name in _READING:
                self._seen[_READ].add(self._opened[id(file)][1])
        else:
            names = self._kept.setdefault(id(file), (file, _position_of(file), set(), line))[2]
            names.add(_READ if name in _READING else _WRITTEN)

    def find_changes(self) -> Iterator[tuple[str, user_lines.Line]]:
        """Yield what the call both changed and read, as a noun, and the line that changed it."""
        for path, written in self._written.items():
            is_read = path in self._seen[_READ] | self._seen[_ASKED] or os.path.dirname(path) in self._seen[_LISTED]
            is_sought = path in self._seen[_SOUGHT]
            if not (is_read or is_sought) or (now := written.state_of(path)) == written.before:
                continue
            if is_read or _kind_of(now) != _kind_of(written.before):
                yield f"the file {os.path.basename(path)!r}", written.line
        for path, marked in self._marked.items():
            if path in self._seen[_ASKED] and marked.state_of(path) != marked.before:
                yield f"the status of the file {os.path.basename(path)!r}", marked.line
        for file, before, names, line in self._kept.values():
            if _READ in names and (_WRITTEN in names or _position_of(file) != before):
                yield "a file that stays open", line

    def _note(self, kind: str, path: Any, frame: FrameType, state_of: Callable[[str], Any] | None = None) -> None:
        if threading.get_ident() != self._thread or isinstance(path, int):
            return
        line, state_of = self._line_of(frame), state_of or _content_of
        if line is None:
            return
        with suppress(TypeError, ValueError, OSError):  # no path, and the function says so itself
            absolute = os.path.abspath(os.fsdecode(path))
            if kind != _WRITTEN:
                self._seen[kind].add(absolute)
            else:
                noted = self._marked if state_of is _status_of else self._written
                if absolute not in noted:
                    noted[absolute] = _Written(state_of(absolute), state_of, line)

    def _line_of(self, frame: FrameType) -> user_lines.Line | None:
        caller: FrameType | None = frame
        while caller is not None and not user_lines.is_user(caller.f_code.co_filename):
            if caller.f_code.co_filename.endswith(_LOGGING):
                return None
            caller = caller.f_back
        return find_user_line(frame)

    def _watch(self, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            if not any(kwargs.get(place) for place in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
                frame = sys._getframe(1)
                kind = _SOUGHT if name in ("stat", "lstat") and _is_seeking(frame) else _FUNCTIONS[name]
                state_of = _status_of if name in _OF_STATUS else None
                for path in args[: 2 if name in _OF_TWO_PATHS else 1] or [kwargs.get("path", ".")]:
                    self._note(kind, path, frame, state_of)
            return own(*args, **kwargs)

        return function

    def _watch_open(self, own: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(own)
        def function(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
            frame, letters = sys._getframe(1), set(mode) if isinstance(mode, str) else set()
            if _READ_MODES & letters:
                self._note(_READ, file, frame)
            if _WRITE_MODES & letters:
                self._note(_WRITTEN, file, frame)
            opened = own(file, mode, *args, **kwargs)
            with suppress(TypeError, ValueError):
                self._opened[id(opened)] = opened, os.path.abspath(os.fsdecode(file))
            return opened

        return function

    def _watch_descriptor(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def function(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is None:
                access = flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
                if access != os.O_WRONLY:
                    self._note(_READ, path, sys._getframe(1))
                if access != os.O_RDONLY or flags & os.O_CREAT:
                    self._note(_WRITTEN, path, sys._getframe(1))
            return own(path, flags, *args, **kwargs)

        return function

    def _watch_opener(self, own: Callable[..., Any], place: int, kinds: set[str]) -> Callable[..., Any]:
        """Watch what opens files where `open` of the user's lines is not seen."""

        @wraps(own)
        def function(*args: Any, **kwargs: Any) -> Any:
            path = args[place] if place < len(args) else next(iter(kwargs.values()), None)
            if isinstance(path, str | bytes | os.PathLike):
                for kind in kinds:
                    self._note(kind, path, sys._getframe(1), _contents_of)
            return own(*args, **kwargs)

        return function


def _is_seeking(frame: FrameType | None) -> bool:
    """Whether the frame, or one that called it in the same file of Python's, asks only whether something is there."""
    while frame is not None and frame.f_globals.get("__name__") in _SEEKING_MODULES:
        if frame.f_code.co_name in _SEEKING and not user_lines.is_user(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


def _openers() -> Iterator[tuple[Any, str, int, set[str]]]:
    """Yield functions that open files by code in C or torch's, which of their arguments is the path, and what for."""
    yield torch, "load", 0, {_READ}
    yield torch, "save", 1, {_WRITTEN}
    yield sqlite3, "connect", 0, {_READ, _WRITTEN}
    if (dbm := sys.modules.get("dbm")) is not None:
        yield dbm, "open", 0, {_READ, _WRITTEN}


def _contents_of(path: str) -> Any:
    """Return the contents of the files of a database: its own, and those beside it that have an ending more."""
    return [_content_of(path + ending) for ending in ("", *_DATABASE_ENDINGS)]


def _content_of(path: str) -> Any:
    """Return a file's content, or what can be told of a large file or a folder; None if nothing is there."""
    with suppress(OSError):
        status = os.stat(path)
        if not os.path.isfile(path):
            return status.st_mode
        if status.st_size > _CONTENT_MAX_BYTES:
            return status.st_size, status.st_mtime_ns
        with open(path, "rb") as file:
            return file.read()
    return None


def _status_of(path: str) -> Any:
    """Return what a file's status has besides its content: its mode, its time and its attributes."""
    with suppress(OSError):
        status = os.stat(path)
        attributes: list[str] = []
        with suppress(OSError, AttributeError):  # another system, or files that have none
            attributes = sorted(os.listxattr(path))
        return status.st_mode, status.st_mtime_ns, [(one, os.getxattr(path, one)) for one in attributes]
    return None


def _kind_of(content: Any) -> Any:
    """Return what kind of thing has such a content: none, a file, or a folder with its mode."""
    if isinstance(content, list):
        return [_kind_of(one) for one in content]
    return content if content is None or isinstance(content, int) else "file"


def _position_of(file: Any) -> Any:
    """Return how far an open file has been read or written, and how long it is."""
    position, size = None, None
    with suppress(Exception):  # a class of the model's own, a closed file, a pipe
        position = file.tell()
    with suppress(Exception):
        size = os.fstat(file.fileno()).st_size
    return position, size
