"""Blobs: bytes stored under the SHA-256 of their content. They are written once and never change.

A disk may change them all the same. So each time a blob is opened, its bytes are compared with its digest.
"""

import errno
import fcntl
import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self
from uuid import uuid4

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from service.domain.errors import BlobMissing, ContentDamaged, DiskFull, TooManyOpenFiles
from service.storage.allowances import Allowance
from service.storage.file_digests import FileDigests, compute_digest
from tracehouse.artifact.blob import DIGEST_PATTERN, BlobRef
from tracehouse.byte_units import MIB

# Each costs some hundred bytes of memory.
_MARK_BYTES = MIB

log = logging.getLogger(__name__)


class StoredFile(NamedTuple):
    """A blob as it is stored."""

    digest: str
    byte_size: int


class Blobs:
    """Blobs in a directory, or in a place that fsspec can reach."""

    def __init__(self, url: str) -> None:
        self._files, self._root = url_to_fs(url)
        self._is_local = isinstance(self._files, LocalFileSystem)
        # Beside the blobs if they are local files: a move is atomic only within one file system.
        self._staging = Path(self._root, "tmp") if self._is_local else Path(tempfile.gettempdir(), "tracehouse-staging")
        self._staging.mkdir(parents=True, exist_ok=True)
        self._digests = FileDigests()

    def stage(self, allowance: Allowance | None = None) -> "StagedBlob":
        """Return a new file, which becomes a blob when it is committed. Raises TooManyOpenFiles.

        What is written is taken from the allowance, unless whoever writes has seen to that.
        """
        with _translate_too_many_files():
            return StagedBlob(self, self._staging, allowance)

    def open(self, digest: str) -> BinaryIO:
        """Return a file whose descriptor a child can be given. Its bytes are those of the digest.

        Raises BlobMissing, ContentDamaged and TooManyOpenFiles.
        """
        file = self._open_unchecked(digest)
        try:
            with _translate_unreadable(digest):
                # A remote file has no identity by which its digest could be remembered.
                actual = self._digests.digest_of(file) if self._is_local else compute_digest(file)
            if actual != digest:
                raise ContentDamaged(f"the stored bytes of {digest} are damaged", digest=digest)
        except BaseException:
            file.close()
            raise
        return file

    def holds(self, digest: str) -> bool:
        """Whether the bytes of this digest are there, and undamaged."""
        try:
            self.open(digest).close()
        except (BlobMissing, ContentDamaged):
            return False
        return True

    def clear_staging(self) -> None:
        """Remove the files that killed processes left. A file that is being written is locked, and remains."""
        for path in self._staging.iterdir():
            # The process that writes it may commit it meanwhile.
            with suppress(FileNotFoundError), path.open("rb") as file:
                if _try_lock(file):
                    path.unlink()

    def files(self) -> Iterator["StoredFile"]:
        """Yield all blobs, in no order. Others may be written and removed meanwhile."""
        self._files.invalidate_cache()  # other processes write there, too
        found = self._files.find(f"{self._root}/sha256", detail=True)
        for path, info in found.items():
            digest = f"sha256:{''.join(path.rsplit('/', 2)[-2:])}"
            if re.fullmatch(DIGEST_PATTERN, digest):
                yield StoredFile(digest, int(info["size"]))

    def written_at(self, digest: str) -> datetime | None:
        """Return when the blob was written, or found to be there by somebody who would have written it."""
        try:
            modified: datetime = self._files.modified(self._path(digest))
        except FileNotFoundError:
            return None
        return modified if modified.tzinfo is not None else modified.replace(tzinfo=UTC)

    def remove(self, digest: str) -> None:
        """Remove a blob; whoever has it open still reads it. It need not be there. Only `Retention` knows when."""
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(digest))

    def keep(self, staged: Path, blob: BlobRef) -> bool:
        """Move the staged file, whose bytes are on disk, to its place; False if the blob is there, and undamaged.

        A blob that is there becomes as young as a new one, so that a sweep that has begun does not remove it. Part of
        `StagedBlob.commit`.
        """
        path = self._path(blob.digest)
        is_there = self._is_there(blob.digest)
        if self._is_local:
            _move(staged, Path(path), is_there=is_there)
        else:  # also if it is there: other file systems cannot make it young in another way
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(staged), path)
        return not is_there

    def _is_there(self, digest: str) -> bool:
        """Whether the blob can stay as it is. A damaged one is about to be replaced, and is logged."""
        try:
            self.open(digest).close()
        except BlobMissing:
            return False
        except ContentDamaged:
            log.warning("a damaged blob is replaced", extra={"digest": digest})
            return False
        return True

    def _open_unchecked(self, digest: str) -> BinaryIO:
        path = self._path(digest)
        try:
            with _translate_too_many_files(), _translate_unreadable(digest):
                if self._is_local:
                    return open(path, "rb")
                with self._files.open(path, "rb") as remote:
                    return _local_copy(remote)
        except FileNotFoundError as error:
            raise _missing(digest) from error

    def _path(self, digest: str) -> str:
        if not re.fullmatch(DIGEST_PATTERN, digest):
            raise _missing(digest)
        name = digest.removeprefix("sha256:")
        return f"{self._root}/sha256/{name[:2]}/{name[2:]}"


class StagedBlob:
    """A file that becomes a blob when it is committed. As a context manager, it is discarded unless it was committed.

    `write` and `commit` raise DiskFull; `write` and `reserve` raise StorageQuotaExceeded.
    """

    def __init__(self, blobs: Blobs, staging: Path, allowance: Allowance | None) -> None:
        self._blobs = blobs
        self._allowance = allowance
        self._taken_bytes = 0  # of the allowance
        self._path, self._file = _create_locked(staging)
        self._sha256 = hashlib.sha256()
        # How the digest stood at some sizes, so that `cut` need not begin anew.
        self._marks = [(0, self._sha256.copy())]
        self.byte_size = 0

    def reserve(self, byte_size: int) -> None:
        """Take so many bytes, which are written next, from the allowance at once."""
        lacking = self.byte_size + byte_size - self._taken_bytes
        if self._allowance is not None and lacking > 0:
            self._allowance.take(lacking)
            self._taken_bytes += lacking

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.reserve(len(data))
        with _translate_full_disk():
            self._file.write(data)
        self._sha256.update(data)
        self.byte_size += len(data)
        if self.byte_size - self._marks[-1][0] >= _MARK_BYTES:
            self._marks.append((self.byte_size, self._sha256.copy()))

    def cut(self, byte_size: int) -> None:
        """Keep only the first bytes, which what is written next will follow. Whoever reads the file sees that too."""
        if not 0 <= byte_size <= self.byte_size:
            raise ValueError(f"{byte_size} of {self.byte_size} bytes are to stay")
        self._marks = [one for one in self._marks if one[0] <= byte_size]
        marked_bytes, sha256 = self._marks[-1]
        self._sha256 = sha256.copy()
        with self.open() as file:
            file.seek(marked_bytes)
            while left := byte_size - file.tell():
                self._sha256.update(file.read(min(left, _MARK_BYTES)))
        self._file.seek(byte_size)
        self._file.truncate()
        self.byte_size = byte_size

    @property
    def blob(self) -> BlobRef:
        """The blob that a commit would make of the bytes written so far."""
        return BlobRef(digest=f"sha256:{self._sha256.hexdigest()}", byte_size=self.byte_size)

    def open(self) -> BinaryIO:
        """Open the bytes written so far, for a reader that gets the descriptor."""
        with _translate_full_disk():
            self._file.flush()
        with _translate_too_many_files():
            return open(self._path, "rb")

    def sync(self) -> None:
        """Bring the bytes written so far to the disk, so that a commit need not wait for it."""
        with _translate_full_disk():
            self._file.flush()
            os.fsync(self._file.fileno())

    def commit(self) -> BlobRef:
        """Put the blob on disk under its digest. If it is there already, it remains as it is, unless it is damaged."""
        blob = self.blob
        self.sync()
        if self._allowance is not None:
            self._allowance.hold_files()
        with _translate_full_disk():
            is_new = self._blobs.keep(self._path, blob)
        if is_new and self._allowance is not None:
            self._allowance.count_kept(blob.byte_size)
        self.discard()
        return blob

    def discard(self) -> None:
        """Remove the file; does nothing after a commit."""
        self._path.unlink(missing_ok=True)
        with suppress(OSError):  # the disk is as full for buffered bytes as before
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.discard()


@contextmanager
def _translate_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull("there is too little room on the disk") from error


@contextmanager
def _translate_too_many_files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise TooManyOpenFiles("the service has too many files open to open another") from error


@contextmanager
def _translate_unreadable(digest: str) -> Iterator[None]:
    """Turn the error of a disk that cannot read a file back into ContentDamaged."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise ContentDamaged(f"the stored bytes of {digest} cannot be read", digest=digest) from error


def _create_locked(staging: Path) -> tuple[Path, BinaryIO]:
    """Make a new file under a lock, which ends with the process that writes it."""
    while True:
        path = staging / uuid4().hex
        file = path.open("xb")
        # Another process may have cleared the staging area before the lock.
        if _try_lock(file) and os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()


def _try_lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _move(staged: Path, place: Path, *, is_there: bool) -> None:
    """Move the file so that the move is atomic even if the machine stops: its bytes are on disk, then its name.

    What `is_there` stays, and becomes young.
    """
    if not place.parent.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        _sync_directory(place.parent.parent)
        _sync_directory(place.parent.parent.parent)
    if is_there:
        os.utime(place)
    else:
        os.replace(staged, place)
    # Also for a blob that was there already: the process that moved it may not have synced yet.
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
