"""File digests: the SHA-256 of local files, computed once for as long as a file does not change."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple

from tracehouse.artifact.blob import BlobRef
from tracehouse.byte_units import MIB

# Each costs some 500 bytes of memory.
_REMEMBERED_MAX = 2**16
# Linux gives a file the time of the last tick of its clock, which comes each 10 ms or more often. A second change
# within one tick leaves the time as it is.
_TICK_NS = 20_000_000
# To hash so many bytes takes about as long as a tick, and longer where the processor has no instructions for it.
_REMEMBERED_BYTES_MIN = 8 * MIB


class FileDigests:
    """The digests of files by their identity. Any number of threads may share it.

    A file whose identity is the same has the same bytes, unless the disk or somebody with the rights of root changed
    them behind the file system.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[_Identity, _Entry] = {}  # the most recently used is the last

    def digest_of(self, file: BinaryIO) -> str:
        """Return `sha256:` and the digest of the whole file as 64 hex digits. The file's position is then its start."""
        identity = _identify(file)
        entry = self._entry(identity)
        with entry.lock:  # a second thread waits for the digest instead of computing it too
            if entry.digest is not None:
                return entry.digest
            is_settled = time.time_ns() - identity.changed_ns > _TICK_NS
            digest = compute_digest(file)
            if is_settled and _identify(file) == identity:
                entry.digest = digest
            return digest

    @contextmanager
    def moving(self, path: Path, blob: BlobRef) -> Iterator[None]:
        """Remember the digest of the file at `path`, which is moved inside, so that it need not be read again.

        Its writer computed the digest. What is small, or was changed meanwhile, is not remembered. Ends when any later
        change shows in the file's identity.
        """
        with path.open("rb") as file:  # what takes its place meanwhile is another file
            written = _identify(file)
            yield
            if written.byte_size == blob.byte_size >= _REMEMBERED_BYTES_MIN and _wait_for_tick(_identify(file)):
                moved = _identify(file)
                if moved == written._replace(ctime_ns=moved.ctime_ns):
                    entry = self._entry(moved)
                    with entry.lock:
                        entry.digest = blob.digest

    def _entry(self, identity: "_Identity") -> "_Entry":
        with self._lock:
            entry = self._entries.pop(identity, None) or _Entry()
            self._entries[identity] = entry
            if len(self._entries) > _REMEMBERED_MAX:
                del self._entries[next(iter(self._entries))]
            return entry


def compute_digest(file: BinaryIO) -> str:
    """Return `sha256:` and the digest of the whole file as 64 hex digits. The file's position is then its start."""
    file.seek(0)
    with open(file.fileno(), "rb", buffering=0, closefd=False) as unbuffered:
        digest = hashlib.file_digest(unbuffered, "sha256").hexdigest()
    file.seek(0)
    return f"sha256:{digest}"


class _Identity(NamedTuple):
    device: int
    inode: int
    byte_size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def changed_ns(self) -> int:
        return max(self.mtime_ns, self.ctime_ns)


@dataclass(eq=False, slots=True)
class _Entry:
    lock: Lock = field(default_factory=Lock)
    digest: str | None = None


def _wait_for_tick(identity: _Identity) -> bool:
    """Wait until a further change gets another time. False if the clock here is not that of the file."""
    left_ns = identity.changed_ns + _TICK_NS - time.time_ns()
    if left_ns > _TICK_NS:
        return False
    time.sleep(max(0, left_ns) / 1e9)
    return True


def _identify(file: BinaryIO) -> _Identity:
    status = os.fstat(file.fileno())
    return _Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
