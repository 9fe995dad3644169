"""A tree of files and folders in memory, with the errors that a file system has."""

import errno
import io
import os
import stat
import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# The times of what is submitted: always the same, and the first that a zip file can hold.
_SUBMITTED_S = 315_619_200
_numbers = count(1)


class MemoryFile:
    """A file: `bytes` can only be read, a `bytearray` can be written too."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = data
        self.number = next(_numbers)
        self.changed_s = time.time() if self.writable else _SUBMITTED_S

    @property
    def writable(self) -> bool:
        return isinstance(self.data, bytearray)


class MemoryFolder:
    """A folder. In one that is not writable nothing can be made, renamed or removed."""

    def __init__(self, *, writable: bool) -> None:
        self.entries: dict[str, MemoryFile | MemoryFolder] = {}
        self.number = next(_numbers)
        self.writable = writable
        self.changed_s = time.time() if writable else _SUBMITTED_S


Node = MemoryFile | MemoryFolder


def status_of(node: Node) -> os.stat_result:
    """Return what `os.stat` returns for it."""
    kind = stat.S_IFDIR | 0o555 if isinstance(node, MemoryFolder) else stat.S_IFREG | 0o444
    mode = kind | 0o200 if node.writable else kind
    size = len(node.data) if isinstance(node, MemoryFile) else 0
    times = (int(node.changed_s),) * 3
    return os.stat_result((mode, node.number, 0, 1, os.getuid(), os.getgid(), size, *times))


class MemoryTree:
    """Files and folders by their paths, which are absolute, normal and beneath `root`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._top = MemoryFolder(writable=False)

    def add_file(self, path: str, data: bytes) -> None:
        """Add a file that can only be read, and the folders above it."""
        folder, _, name = path.rpartition("/")
        self.add_folder(folder, writable=False).entries[name] = MemoryFile(data)

    def add_folder(self, path: str, *, writable: bool) -> MemoryFolder:
        """Add a folder and those above it, as far as there are none yet, and return it."""
        folder = self._top
        for name in self._names(path):
            found = folder.entries.setdefault(name, MemoryFolder(writable=writable))
            if isinstance(found, MemoryFile):  # a source may have the file `a` and the file `a/b`
                found = folder.entries[name] = MemoryFolder(writable=writable)
            folder = found
        return folder

    def find(self, path: str) -> Node:
        """Return what lies at the path. Raises FileNotFoundError and NotADirectoryError."""
        node: Node = self._top
        for name in self._names(path):
            if isinstance(node, MemoryFile):
                raise _error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[name]
        return node

    def find_folder(self, path: str) -> MemoryFolder:
        folder = self.find(path)
        if isinstance(folder, MemoryFile):
            raise _error(errno.ENOTDIR, path)
        return folder

    def open(self, path: str, flags: int) -> MemoryFile:
        """Return the file at the path, made or emptied as the flags of `os.open` say. Raises OSError."""
        if path == self._root:
            raise _error(errno.EISDIR, path)
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        folder, name = self._split(path)
        found = folder.entries.get(name)
        if found is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            _check_writable(folder, path)
            found = folder.entries[name] = MemoryFile(bytearray())
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        if isinstance(found, MemoryFolder):
            raise _error(errno.EISDIR, path)
        if writes:
            _check_writable(found, path)
        if flags & os.O_TRUNC and isinstance(found.data, bytearray):
            found.data.clear()
        return found

    def make_folder(self, path: str) -> None:
        folder, name = self._split(path)
        if name in folder.entries:
            raise _error(errno.EEXIST, path)
        _check_writable(folder, path)
        folder.entries[name] = MemoryFolder(writable=True)

    def remove_file(self, path: str) -> None:
        folder, name = self._split(path)
        if isinstance(self.find(path), MemoryFolder):
            raise _error(errno.EISDIR, path)
        _check_writable(folder, path)
        del folder.entries[name]

    def remove_folder(self, path: str, *, even_if_full: bool = False) -> None:
        folder, name = self._split(path)
        if self.find_folder(path).entries and not even_if_full:
            raise _error(errno.ENOTEMPTY, path)
        _check_writable(folder, path)
        del folder.entries[name]

    def rename(self, path: str, to: str) -> None:
        """Rename a file or a folder; a file replaces a file of the new name."""
        node = self.find(path)
        folder, name = self._split(path)
        new_folder, new_name = self._split(to)
        for one in (folder, new_folder):
            _check_writable(one, path)
        if to.startswith(path + "/"):
            raise _error(errno.EINVAL, path)
        replaced = new_folder.entries.get(new_name)
        if isinstance(replaced, MemoryFolder) and (isinstance(node, MemoryFile) or replaced.entries):
            raise _error(errno.EISDIR if isinstance(node, MemoryFile) else errno.ENOTEMPTY, to)
        if isinstance(replaced, MemoryFile) and isinstance(node, MemoryFolder):
            raise _error(errno.ENOTDIR, to)
        del folder.entries[name]
        new_folder.entries[new_name] = node

    def _split(self, path: str) -> tuple[MemoryFolder, str]:
        if path == self._root:
            raise _error(errno.EROFS, path)
        folder, _, name = path.rpartition("/")
        return self.find_folder(folder), name

    def _names(self, path: str) -> list[str]:
        return [name for name in path.removeprefix(self._root).split("/") if name]


class MemoryIO(io.RawIOBase):
    """An open file of a MemoryTree. Its memory is this process's, and is limited as all of it is."""

    def __init__(
        self, file: MemoryFile, name: object, flags: int, on_close: Callable[[], object] = lambda: None
    ) -> None:
        self.file = file
        self.name = name
        self.flags = flags
        self._on_close = on_close
        self._at = 0

    def readable(self) -> bool:
        return self.flags & os.O_ACCMODE != os.O_WRONLY

    def writable(self) -> bool:
        return self.flags & os.O_ACCMODE != os.O_RDONLY

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        if not self.readable():
            raise io.UnsupportedOperation("not readable")
        view = memoryview(buffer).cast("B")
        part = self.file.data[self._at : self._at + len(view)]
        view[: len(part)] = part
        self._at += len(part)
        return len(part)

    def readall(self) -> bytes:
        if not self.readable():
            raise io.UnsupportedOperation("not readable")
        part = bytes(self.file.data[self._at :])
        self._at += len(part)
        return part

    def write(self, data: object) -> int:
        part = memoryview(data).cast("B")  # type: ignore[arg-type] # as its base class, it raises if this is no buffer
        content = self._writable_content()
        if self.flags & os.O_APPEND:
            self._at = len(content)
        content.extend(bytes(max(0, self._at - len(content))))
        content[self._at : self._at + len(part)] = part
        self._at += len(part)
        self.file.changed_s = time.time()
        return len(part)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self.file.data)}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def truncate(self, size: int | None = None) -> int:
        content = self._writable_content()
        wanted = self._at if size is None else size
        content.extend(bytes(max(0, wanted - len(content))))
        del content[wanted:]
        return wanted

    def close(self) -> None:
        if not self.closed:
            self._on_close()
        super().close()

    def _writable_content(self) -> bytearray:
        if not self.writable() or not isinstance(self.file.data, bytearray):
            raise io.UnsupportedOperation("not writable")
        return self.file.data


def _check_writable(node: Node, path: str) -> None:
    if not node.writable:
        raise _error(errno.EROFS, path)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
