"""The blob cache: files of an object store on this machine's disk, as many as a limit on their bytes allows.

A file that somebody has open is held, and is not removed: whoever opens one gets a shared lock, which lasts as long as
any process has that descriptor. Of the others, the least recently used goes first.
"""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple

from service.storage.file_digests import FileDigests
from service.storage.staging import Staging, try_lock
from tracehouse.artifact.blob import BlobRef

# Other processes may add files that this one has not counted.
_COUNTED_AFTER = 100

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CacheLimits:
    directory: Path
    max_bytes: int


class BlobCache:
    """Any number of threads and processes may share the directory. It may be removed while none does."""

    def __init__(self, limits: CacheLimits) -> None:
        self._directory = limits.directory / "sha256"
        self._max_bytes = limits.max_bytes
        self.staging = Staging(limits.directory / "tmp")
        self._digests = FileDigests()
        self._clock = count(1)
        self._used: dict[str, int] = {}  # when each file was used, by names
        self._lock = Lock()
        self._byte_size = sum(one.byte_size for one in self._list())
        self._added = 0  # since they were counted

    def open(self, digest: str) -> BinaryIO | None:
        """Return the file, held and with the bytes of the digest; None if it is not there. A damaged one is removed."""
        path = self._path(digest)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        self.hold(file)
        self._used[path.name] = next(self._clock)
        if self._is_right(file, digest):
            if self._byte_size > self._max_bytes:
                self._make_room(0)
            return file
        log.warning("a damaged file of the cache is fetched again", extra={"digest": digest})
        file.close()
        path.unlink(missing_ok=True)
        return None

    def hold(self, file: BinaryIO) -> BinaryIO:
        """Keep the file from being removed while it, or a descriptor made of it, is open; return it.

        If that cannot be, because somebody has locked it, it is read all the same: a removed file stays readable.
        """
        try_lock(file, is_shared=True)
        return file

    @contextmanager
    def incoming(self) -> Iterator[Path]:
        """Give a path for a file that is about to be added, and remove what is there if it was not."""
        path, file = self.staging.create()
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)
            file.close()

    def add(self, path: Path, blob: BlobRef) -> None:
        """Move a file with the bytes of this blob into the cache. What is over the limit goes."""
        place = self._path(blob.digest)
        place.parent.mkdir(parents=True, exist_ok=True)
        with self._digests.moving(path, blob):
            os.replace(path, place)
        self._used[place.name] = next(self._clock)
        self._make_room(blob.byte_size)

    def remove(self, digest: str) -> None:
        self._path(digest).unlink(missing_ok=True)

    def _is_right(self, file: BinaryIO, digest: str) -> bool:
        try:
            return self._digests.digest_of(file) == digest
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False

    def _make_room(self, added_bytes: int) -> None:
        with self._lock:
            self._byte_size += added_bytes
            self._added += 1
            if self._byte_size <= self._max_bytes and self._added < _COUNTED_AFTER:
                return
            files = sorted(self._list())
            self._used = {one.path.name: used for one in files if (used := self._used.get(one.path.name)) is not None}
            self._byte_size = sum(one.byte_size for one in files)
            self._added = 0
            for file in files:
                if self._byte_size <= self._max_bytes:
                    break
                if _remove_unheld(file.path):
                    self._byte_size -= file.byte_size

    def _list(self) -> "Iterator[_CachedFile]":
        for path in self._directory.glob("??/*"):
            with suppress(FileNotFoundError):
                status = path.stat()
                yield _CachedFile(self._used.get(path.name, 0), status.st_mtime_ns, status.st_size, path)

    def _path(self, digest: str) -> Path:
        name = digest.removeprefix("sha256:")
        return self._directory / name[:2] / name


class _CachedFile(NamedTuple):
    """In the order in which they go: those that this process never used go first, the oldest of them before others."""

    used: int
    mtime_ns: int
    byte_size: int
    path: Path


def _remove_unheld(path: Path) -> bool:
    """Remove the file; False if somebody has it open."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        if not try_lock(file):
            return False
        path.unlink()
    return True
