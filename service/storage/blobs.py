"""Blobs: bytes stored under the SHA-256 of their content. They are written once and never change.

What keeps them may change them all the same. So each time a blob is opened, its bytes are compared with its digest.
`local_blobs.py` keeps them in a directory, `remote_blobs.py` in an object store.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ClassVar, NamedTuple, Protocol, Self

from service.domain.errors import BlobMissing, ContentDamaged, FilesUnavailable
from service.storage.allowances import Allowance
from service.storage.file_errors import translate_full_disk, translate_too_many_files
from service.storage.staging import Staging
from tracehouse.artifact.blob import BlobRef
from tracehouse.byte_units import MIB

# Each costs some hundred bytes of memory.
_MARK_BYTES = MIB
# Remembered, and named in /readyz.
_DAMAGED_MAX = 100


class StoredFile(NamedTuple):
    """A blob as it is stored."""

    digest: str
    byte_size: int


class Upload(Protocol):
    """A blob of which all bytes are where they will stay, but not yet under its name."""

    @property
    def blob(self) -> BlobRef: ...

    def discard(self) -> None:
        """Remove its bytes. Raises FilesUnavailable."""
        ...


class Blobs(ABC):
    """Where blobs are kept. Any number of threads and processes may share it.

    Where they are kept elsewhere, each method but `stage` and `clear_staging` may wait for that place, and raises
    FilesUnavailable if it does not answer. So they are called on threads, never on the event loop.
    """

    removed_at_once: ClassVar[int]  # as many as take no longer than whoever wants to store files can wait

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._damaged: dict[str, None] = {}  # in the order in which they were found

    def stage(self, allowance: Allowance | None = None) -> "StagedBlob":
        """Return a new file, which becomes a blob when it is committed. Raises TooManyOpenFiles.

        What is written is taken from the allowance, unless whoever writes has seen to that.
        """
        with translate_too_many_files():
            try:
                return StagedBlob(self, self._staging, allowance)
            except FileNotFoundError:
                self.ping()
                raise

    def open(self, digest: str) -> BinaryIO:
        """Return a file whose descriptor a child can be given. Its bytes are those of the digest.

        Raises BlobMissing, ContentDamaged, TooManyOpenFiles and DiskFull.
        """
        try:
            file = self._open(digest)
        except ContentDamaged:
            if len(self._damaged) < _DAMAGED_MAX:
                self._damaged[digest] = None
            raise
        self._damaged.pop(digest, None)
        return file

    def holds(self, digest: str) -> bool:
        """Whether the bytes of this digest are there, and undamaged."""
        try:
            self.open(digest).close()
        except (BlobMissing, ContentDamaged):
            return False
        return True

    @property
    def damaged(self) -> list[str]:
        """The digests of blobs that this process found damaged, and that were not found whole or replaced since."""
        return [*self._damaged]

    def clear_staging(self) -> None:
        """Remove the files that killed processes left. A file that is being written is locked, and remains."""
        self._staging.clear()

    def keep(self, staged: Path, blob: BlobRef, upload: Upload | None) -> bool:
        """Give the staged file its place; False if the blob is there. Part of `StagedBlob.commit`.

        A blob that is there becomes as young as a new one, so that a sweep that has begun does not remove it; if it is
        damaged, it is replaced.
        """
        is_new = self._keep(staged, blob, upload)
        self._damaged.pop(blob.digest, None)
        return is_new

    @abstractmethod
    def ping(self) -> None:
        """Raises FilesUnavailable if blobs can be neither written nor read now."""

    @abstractmethod
    def files(self) -> Iterator[StoredFile]:
        """Yield all blobs, in no order. Others may be written and removed meanwhile."""

    @abstractmethod
    def written_at(self, digest: str) -> datetime | None:
        """Return when the blob was written, or found to be there by somebody who would have written it."""

    @abstractmethod
    def remove(self, digest: str) -> None:
        """Remove a blob; whoever has it open still reads it. It need not be there. Only `Retention` knows when."""

    @abstractmethod
    def clear_uploads(self) -> None:
        """Remove what killed processes left of uploads that had begun."""

    @abstractmethod
    def sync(self, file: BinaryIO) -> None:
        """Bring a staged file's bytes to the disk, if the blob is going to be that very file."""

    @abstractmethod
    def begin_upload(self, staged: Path, blob: BlobRef) -> Upload | None:
        """Bring the staged file's bytes to where they will stay; None if `keep` does that."""

    @abstractmethod
    def _open(self, digest: str) -> BinaryIO: ...

    @abstractmethod
    def _keep(self, staged: Path, blob: BlobRef, upload: Upload | None) -> bool: ...


def missing(digest: str) -> BlobMissing:
    return BlobMissing("the bytes of this digest are not there", digest=digest)


class StagedBlob:
    """A file that becomes a blob when it is committed. As a context manager, it is discarded unless it was committed.

    `write` and `commit` raise DiskFull; `write` and `reserve` raise StorageQuotaExceeded; `sync` and `commit` raise
    FilesUnavailable.
    """

    def __init__(self, blobs: Blobs, staging: Staging, allowance: Allowance | None) -> None:
        self._blobs = blobs
        self._allowance = allowance
        self._taken_bytes = 0  # of the allowance
        self._path, self._file = staging.create()
        self._upload: Upload | None = None
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
        with translate_full_disk():
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
        with translate_full_disk():
            self._file.flush()
        with translate_too_many_files():
            return open(self._path, "rb")

    def sync(self) -> None:
        """Bring the bytes written so far to where they stay, so that a commit need not wait for it."""
        with translate_full_disk():
            self._file.flush()
            self._blobs.sync(self._file)
        self._begin_upload(self.blob)

    def commit(self) -> BlobRef:
        """Put the blob under its digest, where it then stays. Nothing of it is seen there before it is whole."""
        blob = self.blob
        self.sync()
        if self._allowance is not None:
            self._allowance.hold_files()
        with translate_full_disk(), translate_too_many_files():
            is_new = self._blobs.keep(self._path, blob, self._upload)
        self._upload = None
        if is_new and self._allowance is not None:
            self._allowance.count_kept(blob.byte_size)
        self.discard()
        return blob

    def discard(self) -> None:
        """Remove the file; does nothing after a commit."""
        self._discard_upload()
        self._path.unlink(missing_ok=True)
        with suppress(OSError):  # the disk is as full for buffered bytes as before
            self._file.close()

    def _begin_upload(self, blob: BlobRef) -> None:
        if self._upload is None or self._upload.blob != blob:
            self._discard_upload()
            with translate_full_disk(), translate_too_many_files():
                self._upload = self._blobs.begin_upload(self._path, blob)

    def _discard_upload(self) -> None:
        if self._upload is not None:
            with suppress(FilesUnavailable):  # what stays there is removed by a sweep
                self._upload.discard()
            self._upload = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.discard()
