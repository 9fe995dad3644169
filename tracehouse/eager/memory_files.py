"""Files in memory that Python's functions for files find: the submitted files, a home and a temporary folder.

A child of the sandbox can write nowhere, and its source lies on no disk. Code of real projects opens files beside its
modules, and packages keep caches in the home. For that, these functions are replaced in the process of the model, for
the paths beneath ROOT alone. All other paths go to the kernel, which decides as before: nothing more of the machine can
be read or written, and the files end with the process, within its limit of memory.

Compiled code that opens a path by itself finds nothing there.
"""

import builtins
import errno
import glob
import io
import os
import posixpath
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FrameType, FunctionType
from typing import Any, Self

from tracehouse.eager.memory_tree import MemoryFolder, MemoryIO, MemoryTree, Node, status_of
from tracehouse.introspection.paths import SOURCE_FOLDER

ROOT = posixpath.dirname(SOURCE_FOLDER)
HOME = f"{ROOT}/home"
TEMPORARY = f"{ROOT}/tmp"
_ENVIRONMENT = {"HOME": HOME, "TMPDIR": TEMPORARY}
# What stands in for the functions of `os` that take a descriptor.
_DESCRIPTOR_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "read": MemoryIO.read,
    "write": MemoryIO.write,
    "close": MemoryIO.close,
    "fstat": lambda file: status_of(file.file),
    "lseek": MemoryIO.seek,
    "ftruncate": MemoryIO.truncate,
    "fsync": MemoryIO.flush,
}
# From Python 3.13 on, `pathlib` lists folders by one of these classes, which keeps functions of `os`.
_GLOBBERS = [one for one in vars(glob).values() if isinstance(one, type)]
_FLAGS = {
    "r": 0,
    "w": os.O_CREAT | os.O_TRUNC,
    "a": os.O_CREAT | os.O_APPEND,
    "x": os.O_CREAT | os.O_EXCL,
}


class MemoryFiles:
    """The files of one source, which lie in SOURCE_FOLDER and cannot be changed; HOME and TEMPORARY are empty.

    While they are installed, SOURCE_FOLDER is the working directory.
    """

    def __init__(self, source: Mapping[str, bytes]) -> None:
        self._tree = MemoryTree(ROOT)
        self._tree.add_folder(SOURCE_FOLDER, writable=False)
        for path, data in source.items():
            self._tree.add_file(f"{SOURCE_FOLDER}/{path}", data)
        for folder in (HOME, TEMPORARY):
            self._tree.add_folder(folder, writable=True)
        self._working: str | None = SOURCE_FOLDER  # None: the process's own working directory
        self._open_files: dict[int, MemoryIO] = {}  # by their descriptors
        self._before: list[tuple[Any, str, Any]] = []
        self._environment: dict[str, str | None] = {}

    def install(self) -> None:
        """Let Python's functions find the files, and name the folders in the environment."""
        self._environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
        os.environ.update(_ENVIRONMENT)
        for owner, name, value in [*self._replacements()]:
            self._before.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)

    def uninstall(self) -> None:
        """Undo `install`."""
        for owner, name, value in reversed(self._before):
            setattr(owner, name, value)
        self._before.clear()
        for variable, before in self._environment.items():
            if before is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = before

    def has_folder(self, path: str) -> bool:
        """Whether a folder lies at this path, which is one that `path_of` returned."""
        try:
            return isinstance(self._tree.find(path), MemoryFolder)
        except OSError:
            return False

    def path_of(self, path: Any) -> str | None:
        """Return the absolute path of what lies in memory; None for every other path."""
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None
        if not text.startswith("/"):
            if self._working is None or not text:
                return None
            text = f"{self._working}/{text}"
        text = posixpath.normpath(text)
        return text if text == ROOT or text.startswith(f"{ROOT}/") else None

    def _replacements(self) -> Iterator[tuple[Any, str, Any]]:
        for name, on_path in self._path_functions().items():
            if own := getattr(os, name, None):  # macOS has no listxattr
                served = self._serve_path(f"os.{name}", own, on_path)
                yield os, name, served
                yield from (
                    (kept, name, staticmethod(served)) for kept in _GLOBBERS if getattr(kept, name, None) is own
                )
        for name, on_file in _DESCRIPTOR_FUNCTIONS.items():
            yield os, name, partial(self._serve_descriptor, getattr(os, name), on_file)
        for name in ("rename", "replace"):
            yield os, name, partial(self._rename, getattr(os, name))
        yield os, "getcwd", partial(self._working_folder, os.getcwd)
        opened = partial(_serve_open, builtins.open, self._open_raw)
        yield builtins, "open", opened
        yield io, "open", opened
        yield tempfile, "tempdir", TEMPORARY
        yield from self._replacements_of_removal()

    def _path_functions(self) -> dict[str, Callable[..., Any]]:
        """Return what stands in for the functions of `os` that take a path: it gets the path in memory, then the path
        as it was given."""
        tree = self._tree
        return {
            "stat": self._stat,
            "lstat": self._stat,
            "access": self._access,
            "listdir": lambda path, _: [*tree.find_folder(path).entries],
            "scandir": self._scan,
            "open": self._open_descriptor,
            "mkdir": lambda path, *_, **__: tree.make_folder(path),
            "rmdir": lambda path, _: tree.remove_folder(path),
            "remove": lambda path, _: tree.remove_file(path),
            "unlink": lambda path, _: tree.remove_file(path),
            "truncate": self._truncate,
            "chdir": self._change_folder,
            "chmod": self._leave_as_it_is,
            "utime": self._leave_as_it_is,
            "readlink": self._read_link,
            "listxattr": lambda *_, **__: [],
        }

    def _replacements_of_removal(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield what Python's own modules remove files by: descriptors of folders, and functions that they keep."""
        remove_all = partial(self._tree.remove_folder, even_if_full=True)
        rmtree = shutil.rmtree
        served_rmtree = self._serve_path("shutil.rmtree", rmtree, lambda path, *_, **__: remove_all(path))
        yield shutil, "rmtree", served_rmtree
        if vars(tempfile).get("_rmtree") is rmtree:  # in the Python of Debian and Ubuntu
            yield tempfile, "_rmtree", served_rmtree
        unlink = os.unlink
        served = self._serve_path("os.unlink", unlink, lambda path, _: self._tree.remove_file(path))
        for function in vars(vars(tempfile)["_TemporaryFileCloser"]).values():
            if isinstance(function, FunctionType) and function.__defaults__ and unlink in function.__defaults__:
                defaults = tuple(served if value is unlink else value for value in function.__defaults__)
                yield function, "__defaults__", defaults

    def _serve_path(self, name: str, own: Callable[..., Any], on_path: Callable[..., Any]) -> Callable[..., Any]:
        # A partial and no function: it does not become a method where a class keeps it, as a C function does not.
        return partial(_serve_path, name, own, on_path, self.path_of)

    def _serve_descriptor(
        self, own: Callable[..., Any], on_file: Callable[..., Any], fd: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        file = self._open_files.get(fd) if isinstance(fd, int) else None
        return own(fd, *args, **kwargs) if file is None else on_file(file, *args, **kwargs)

    def _stat(self, path: str, _: Any, **__: Any) -> os.stat_result:
        return status_of(self._tree.find(path))

    def _access(self, path: str, _: Any, mode: int, **__: Any) -> bool:
        try:
            node = self._tree.find(path)
        except OSError:
            return False
        return node.writable or not mode & os.W_OK

    def _scan(self, path: str, given: Any) -> "_Scan":
        entries = [*self._tree.find_folder(path).entries.items()]
        return _Scan(_Entry(name, posixpath.join(os.fsdecode(given), name), node) for name, node in entries)

    def _truncate(self, path: str, _: Any, length: int) -> None:
        MemoryIO(self._tree.open(path, os.O_RDWR), path, os.O_RDWR).truncate(length)

    def _leave_as_it_is(self, path: str, *_: Any, **__: Any) -> None:
        self._tree.find(path)

    def _read_link(self, path: str, _: Any) -> str:
        self._tree.find(path)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    def _change_folder(self, path: str, _: Any) -> None:
        self._tree.find_folder(path)
        self._working = path

    def _working_folder(self, own: Callable[[], str]) -> str:
        return own() if self._working is None else self._working

    def _rename(self, own: Callable[..., None], src: Any, dst: Any, **options: Any) -> None:
        path, to = self.path_of(src), self.path_of(dst)
        if path is None and to is None:
            own(src, dst, **options)
        elif path is None or to is None:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), src, None, dst)
        else:
            self._tree.rename(path, to)

    def _open_descriptor(self, path: str, _: Any, flags: int, mode: int = 0o777) -> int:  # noqa: ARG002
        file = self._tree.open(path, flags)
        descriptor = os.dup(0)  # a number that nothing else has
        self._open_files[descriptor] = MemoryIO(file, path, flags, on_close=partial(self._release, descriptor))
        return descriptor

    def _release(self, descriptor: int) -> None:
        del self._open_files[descriptor]
        os.close(descriptor)

    def _open_raw(self, file: Any, flags: int, *, closefd: bool, opener: Callable[..., int] | None) -> MemoryIO | None:
        """Return what lies in memory under a path or a descriptor, opened; None for all else."""
        if isinstance(file, int):
            opened = self._open_files.get(file)
            return opened if opened is None or closefd else MemoryIO(opened.file, opened.name, opened.flags)
        path = self.path_of(file)
        if path is None:
            return None
        if opener is not None:
            return self._open_raw(opener(file, flags), flags, closefd=True, opener=None)
        return MemoryIO(self._tree.open(path, flags), file, flags)


class _Entry(os.PathLike[str]):
    """What `os.scandir` yields."""

    def __init__(self, name: str, path: str, node: Node) -> None:
        self.name = name
        self.path = path
        self._node = node

    def __fspath__(self) -> str:
        return self.path

    def inode(self) -> int:
        return self._node.number

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - there are none
        return isinstance(self._node, MemoryFolder)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        return not isinstance(self._node, MemoryFolder)

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002
        return status_of(self._node)


class _Scan:
    """The iterator that `os.scandir` returns."""

    def __init__(self, entries: Iterator[_Entry]) -> None:
        self._entries = entries

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def served_function(frame: FrameType) -> str | None:
    """Return the name of the function that a frame stands in for, such as `os.stat`; None for any other frame."""
    if frame.f_code is _serve_open.__code__:
        return "open"
    return str(frame.f_locals["name"]) if frame.f_code is _serve_path.__code__ else None


def _serve_path(
    name: str,  # noqa: ARG001 - for `served_function`
    own: Callable[..., Any],
    on_path: Callable[..., Any],
    path_of: Callable[[Any], str | None],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Call a function that takes a path, or what stands in for it if the path lies in memory."""
    given, *others = args or (kwargs.pop("path", "."),)
    path = path_of(given) if kwargs.get("dir_fd") is None else None
    if path is None:
        return own(given, *others, **kwargs)
    kwargs.pop("dir_fd", None)
    with _naming(given):
        return on_path(path, given, *others, **kwargs)


def _serve_open(
    own: Callable[..., Any],
    open_raw: Callable[..., MemoryIO | None],
    /,
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[..., int] | None = None,
) -> Any:
    """Open a file as `open` does, also one that lies in memory."""
    with _naming(file):
        raw = open_raw(file, _flags_of(mode), closefd=closefd, opener=opener)
    if raw is None:
        return own(file, mode, buffering, encoding, errors, newline, closefd, opener)
    if "b" in mode and buffering == 0:
        return raw
    buffered = _buffer(raw, mode, buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)
    if "b" in mode:
        return buffered
    text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)
    text.mode = mode  # type: ignore[misc] # as `open` does
    return text


# The code of the functions that stand in for others, which `served_function` names.
SERVING_CODES = (_serve_open.__code__, _serve_path.__code__)


@contextmanager
def _naming(given: Any) -> Iterator[None]:
    """Let an OSError name the path as it was given, as Python does."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            error.filename = os.fspath(given)
        raise


def _flags_of(mode: str) -> int:
    """Return the flags of `os.open` for a mode of `open`. Raises ValueError."""
    kinds = [letter for letter in mode if letter in _FLAGS]
    if len(kinds) != 1 or set(mode) - {*_FLAGS, *"+bt"} or len(set(mode)) < len(mode) or {"b", "t"} <= set(mode):
        raise ValueError(f"invalid mode: {mode!r}")
    access = os.O_RDWR if "+" in mode else os.O_RDONLY if kinds == ["r"] else os.O_WRONLY
    return _FLAGS[kinds[0]] | access


def _buffer(raw: MemoryIO, mode: str, size: int) -> io.BufferedReader | io.BufferedWriter | io.BufferedRandom:
    if "+" in mode:
        return io.BufferedRandom(raw, size)
    return io.BufferedReader(raw, size) if "r" in mode else io.BufferedWriter(raw, size)
