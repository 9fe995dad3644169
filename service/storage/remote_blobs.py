"""Remote blobs: kept in an object store, and used from a cache on this machine's disk.

What is written is staged in the cache's directory and becomes a blob once the store has all of it. What is read is
fetched into the cache, where its bytes are compared with its digest before anybody gets them.
"""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import BinaryIO
from weakref import WeakValueDictionary

from service.domain.errors import ContentDamaged, FilesUnavailable
from service.storage.blob_cache import BlobCache
from service.storage.blobs import Blobs, StoredFile, Upload, missing
from service.storage.file_digests import compute_digest
from service.storage.file_errors import translate_full_disk, translate_too_many_files
from service.storage.object_store import ObjectStore, ObjectUpload
from tracehouse.artifact.blob import DIGEST_PATTERN, BlobRef

_FOLDER = "sha256"
# An upload takes minutes, and its parts are of no use once the process that sent them is gone.
_UPLOAD_MAX = timedelta(days=1)

log = logging.getLogger(__name__)


class RemoteBlobs(Blobs):
    removed_at_once = 10  # two requests each

    def __init__(self, store: ObjectStore, cache: BlobCache) -> None:
        super().__init__(cache.staging)
        self._store = store
        self._cache = cache
        self._lock = Lock()
        self._fetching: WeakValueDictionary[str, Lock] = WeakValueDictionary()  # by digests

    def ping(self) -> None:
        self._store.ping()

    def files(self) -> Iterator[StoredFile]:
        for name, byte_size in self._store.list(_FOLDER):
            digest = f"sha256:{''.join(name.rsplit('/', 2)[-2:])}"
            if re.fullmatch(DIGEST_PATTERN, digest):
                yield StoredFile(digest, byte_size)

    def written_at(self, digest: str) -> datetime | None:
        return self._store.written_at(_name(digest))

    def remove(self, digest: str) -> None:
        self._store.remove(_name(digest))
        self._cache.remove(digest)

    def clear_uploads(self) -> None:
        self._store.remove_uploads(datetime.now(UTC) - _UPLOAD_MAX)

    def sync(self, file: BinaryIO) -> None:
        """The store has the blob on its disks; the file here is a copy."""

    def begin_upload(self, staged: Path, blob: BlobRef) -> Upload | None:
        upload = self._store.begin_upload(_name(blob.digest), staged)
        return None if upload is None else _BlobUpload(blob, upload)

    def _open(self, digest: str) -> BinaryIO:
        name = _name(digest)
        with translate_too_many_files(), translate_full_disk():
            file = self._cache.open(digest)
            if file is not None:
                return file
            with self._turn(digest):  # whoever else wants it waits for it, instead of fetching it too
                return self._cache.open(digest) or self._fetch(digest, name)

    def _turn(self, digest: str) -> Lock:
        with self._lock:
            return self._fetching.setdefault(digest, Lock())

    def _fetch(self, digest: str, name: str) -> BinaryIO:
        """Fetch the blob into the cache. Raises BlobMissing, ContentDamaged and FilesUnavailable."""
        # Twice: it may have been replaced by the right bytes while it was read, or have been damaged on the way.
        for _ in range(2):
            file = self._fetch_once(digest, name)
            if file is not None:
                return self._cache.hold(file)
        raise ContentDamaged(f"the stored bytes of {digest} are damaged", digest=digest)

    def _fetch_once(self, digest: str, name: str) -> BinaryIO | None:
        """Return the file, which is in the cache now; None if it has other bytes."""
        with self._cache.incoming() as path:
            try:
                self._store.get(name, path)
            except FileNotFoundError as error:
                raise missing(digest) from error
            with ExitStack() as opened:
                file = opened.enter_context(path.open("rb"))
                if compute_digest(file) != digest:
                    return None
                self._cache.add(path, BlobRef(digest=digest, byte_size=os.fstat(file.fileno()).st_size))
                opened.pop_all()
                return file

    def _keep(self, staged: Path, blob: BlobRef, upload: Upload | None) -> bool:
        """Bring the blob to the store, also if it is there: no other way makes it young, and it may be damaged."""
        name = _name(blob.digest)
        is_new = self._store.size(name) is None
        if isinstance(upload, _BlobUpload):
            upload.commit()
        else:
            self._store.put(name, staged)
        kept_bytes = self._store.size(name)
        if kept_bytes != blob.byte_size:
            raise FilesUnavailable(f"the store of the files has kept {kept_bytes} of {blob.byte_size} bytes")
        if blob.digest in self.damaged:
            log.warning("a damaged blob is replaced", extra={"digest": blob.digest})
        self._cache.add(staged, blob)
        return is_new


@dataclass(frozen=True)
class _BlobUpload:
    blob: BlobRef
    upload: ObjectUpload

    def commit(self) -> None:
        self.upload.commit()

    def discard(self) -> None:
        self.upload.discard()


def _name(digest: str) -> str:
    """Raises BlobMissing if it is no digest."""
    if not re.fullmatch(DIGEST_PATTERN, digest):
        raise missing(digest)
    name = digest.removeprefix("sha256:")
    return f"{_FOLDER}/{name[:2]}/{name[2:]}"
