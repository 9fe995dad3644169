"""Local blobs: each is a file of a directory, on this machine's disk or on one that several machines share."""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from service.disk import sync_directory
from service.domain.errors import BlobMissing, ContentDamaged, FilesUnavailable
from service.storage.blobs import Blobs, StoredFile, Upload, missing
from service.storage.file_digests import FileDigests
from service.storage.file_errors import translate_too_many_files, translate_unreadable
from service.storage.staging import Staging
from tracehouse.artifact.blob import DIGEST_PATTERN, BlobRef

log = logging.getLogger(__name__)


class LocalBlobs(Blobs):
    removed_at_once = 50  # takes some milliseconds

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._digests = FileDigests()
        # Beside the blobs: a move is atomic only within one file system.
        super().__init__(Staging(directory / "tmp"))

    def ping(self) -> None:
        """Raises FilesUnavailable where a shared directory is not mounted any more."""
        if not self._staging.directory.is_dir():
            raise FilesUnavailable("the directory of the files is not there")

    def files(self) -> Iterator[StoredFile]:
        for folder in _entries(self._directory / "sha256"):
            for file in _entries(folder.path):
                digest = f"sha256:{folder.name}{file.name}"
                if re.fullmatch(DIGEST_PATTERN, digest):
                    with suppress(FileNotFoundError):
                        yield StoredFile(digest, file.stat().st_size)

    def written_at(self, digest: str) -> datetime | None:
        try:
            return datetime.fromtimestamp(self._path(digest).stat().st_mtime, UTC)
        except FileNotFoundError:
            return None

    def remove(self, digest: str) -> None:
        self._path(digest).unlink(missing_ok=True)

    def clear_uploads(self) -> None:
        """There are none."""

    def sync(self, file: BinaryIO) -> None:
        os.fsync(file.fileno())

    def begin_upload(self, staged: Path, blob: BlobRef) -> None:
        """A move takes no time."""

    def _open(self, digest: str) -> BinaryIO:
        file = self._open_unchecked(digest)
        try:
            with translate_unreadable(digest):
                actual = self._digests.digest_of(file)
            if actual != digest:
                raise ContentDamaged(f"the stored bytes of {digest} are damaged", digest=digest)
        except BaseException:
            file.close()
            raise
        return file

    def _open_unchecked(self, digest: str) -> BinaryIO:
        path = self._path(digest)
        try:
            with translate_too_many_files(), translate_unreadable(digest):
                return path.open("rb")
        except FileNotFoundError as error:
            self.ping()
            raise missing(digest) from error

    def _keep(self, staged: Path, blob: BlobRef, upload: Upload | None) -> bool:  # noqa: ARG002
        """Move the staged file, whose bytes are on disk, to its place, unless the blob is there, and undamaged."""
        place = self._path(blob.digest)
        if self._is_there(blob.digest):
            os.utime(place)
            sync_directory(place.parent)  # the process that moved it may not have synced yet
            return False
        with self._digests.moving(staged, blob):
            _move(staged, place)
        return True

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

    def _path(self, digest: str) -> Path:
        if not re.fullmatch(DIGEST_PATTERN, digest):
            raise missing(digest)
        name = digest.removeprefix("sha256:")
        return self._directory / "sha256" / name[:2] / name[2:]


def _entries(directory: "str | Path") -> "Iterator[os.DirEntry[str]]":
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        yield from entries


def _move(staged: Path, place: Path) -> None:
    """Move the file so that the move is atomic even if the machine stops: its bytes are on disk, then its name."""
    if not place.parent.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        sync_directory(place.parent.parent)
        sync_directory(place.parent.parent.parent)
    os.replace(staged, place)
    sync_directory(place.parent)
