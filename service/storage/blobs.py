"""Blobs: bytes kept under the SHA-256 of their content. Written once, never changed."""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self
from uuid import uuid4

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from service.domain.errors import BlobMissing, DiskFull, TooManyOpenFiles
from tracehouse.artifact.blob import DIGEST_PATTERN, BlobRef


class Blobs:
    """A directory, or a place that fsspec reaches."""

    def __init__(self, url: str) -> None:
        self._files, self._root = url_to_fs(url)
        self._is_local = isinstance(self._files, LocalFileSystem)
        # Beside the blobs where that can be: moving a file is atomic only within one file system.
        self._staging = Path(self._root, "tmp") if self._is_local else Path(tempfile.gettempdir(), "tracehouse-staging")
        self._staging.mkdir(parents=True, exist_ok=True)

    def stage(self) -> "Staged":
        """A file to be written, which becomes a blob when it is committed. Raises TooManyOpenFiles."""
        with _descriptor_expected():
            return Staged(self, self._staging)

    def open(self, digest: str) -> BinaryIO:
        """A real file, with a descriptor that a child can be given. Raises BlobMissing and TooManyOpenFiles."""
        path = self._path(digest)
        try:
            with _descriptor_expected():
                if self._is_local:
                    return open(path, "rb")
                with self._files.open(path, "rb") as remote:
                    return _local_copy(remote)
        except FileNotFoundError as error:
            raise _missing(digest) from error

    def clear_staging(self) -> None:
        """Remove what killed processes left. A file that is being written is locked, and stays."""
        for path in self._staging.iterdir():
            # It may be committed meanwhile, by the process that writes it.
            with suppress(FileNotFoundError), path.open("rb") as file:
                if _locked(file):
                    path.unlink()

    def keep(self, staged: Path, blob: BlobRef) -> None:
        """Give the staged file, whose bytes are on disk, its place. Part of `Staged.commit`."""
        path = self._path(blob.digest)
        if self._is_local:
            _move(staged, Path(path))
        elif not (self._files.exists(path) and self._files.size(path) == blob.byte_size):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(staged), path)

    def _path(self, digest: str) -> str:
        if not re.fullmatch(DIGEST_PATTERN, digest):
            raise _missing(digest)
        name = digest.removeprefix("sha256:")
        return f"{self._root}/sha256/{name[:2]}/{name[2:]}"


class Staged:
    """Bytes on their way to being a blob; as a context manager it is discarded unless it was committed.

    `write` and `commit` raise DiskFull.
    """

    def __init__(self, blobs: Blobs, staging: Path) -> None:
        self._blobs = blobs
        self._path, self._file = _create_locked(staging)
        self._sha256 = hashlib.sha256()
        self.byte_size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        with _room_expected():
            self._file.write(data)
        self._sha256.update(data)
        self.byte_size += len(data)

    @property
    def blob(self) -> BlobRef:
        """What a commit makes of what was written so far."""
        return BlobRef(digest=f"sha256:{self._sha256.hexdigest()}", byte_size=self.byte_size)

    def open(self) -> BinaryIO:
        """What was written so far, to be read by whoever is handed the descriptor."""
        with _room_expected():
            self._file.flush()
        with _descriptor_expected():
            return open(self._path, "rb")

    def sync(self) -> None:
        """Bring what was written so far to the disk, so that a commit need not wait for it."""
        with _room_expected():
            self._file.flush()
            os.fsync(self._file.fileno())

    def commit(self) -> BlobRef:
        """On disk, under its digest, before this returns. Bytes that are there already are kept as they are."""
        blob = self.blob
        self.sync()
        with _room_expected():
            self._blobs.keep(self._path, blob)
        self.discard()
        return blob

    def discard(self) -> None:
        """Let go of the file. After a commit there is nothing left to discard."""
        self._path.unlink(missing_ok=True)
        with suppress(OSError):  # what is still buffered finds no more room now than before
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.discard()


@contextmanager
def _room_expected() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull("there is too little room on the disk") from error


@contextmanager
def _descriptor_expected() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise TooManyOpenFiles("the service has too many files open to open another") from error


def _create_locked(staging: Path) -> tuple[Path, BinaryIO]:
    """A new file under a lock, which ends with the process that writes it."""
    while True:
        path = staging / uuid4().hex
        file = path.open("xb")
        # Another process that clears the staging area may have come between the two.
        if _locked(file) and os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _move(staged: Path, place: Path) -> None:
    """Atomic, and still so if the machine stops: the bytes are on disk before the name is, and then the name."""
    if not place.parent.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        _sync_directory(place.parent.parent)
        _sync_directory(place.parent.parent.parent)
    if not place.exists():
        os.replace(staged, place)
    # Also for a blob that was there: whoever put it may not have come this far yet.
    _sync_directory(place.parent)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _local_copy(remote: BinaryIO) -> BinaryIO:
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - the caller's to close
    shutil.copyfileobj(remote, copy)
    copy.seek(0)
    return copy


def _missing(digest: str) -> BlobMissing:
    return BlobMissing("the bytes of this digest are not there", digest=digest)
