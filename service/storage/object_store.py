"""The object store: objects under names, in a bucket of S3 or another place that fsspec reaches.

Each call waits for the place on the thread that makes it, for a bounded time, and raises FilesUnavailable if it does
not answer. From then on calls are refused at once, until one of them, some seconds later, finds that it answers again.

A place may take a call and say nothing. If nothing was heard for some seconds, it is asked for a small object, and if
that does not come soon, all calls that wait are given up: they hold threads that others need.
"""

import asyncio
import logging
import os
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import BoundedSemaphore, Lock, Thread
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from service.domain.errors import FilesUnavailable
from service.storage.file_errors import is_of_this_machine
from tracehouse.byte_units import MIB

# Of each part, of which a transfer has four in memory. S3 takes no smaller ones, and at most 10,000.
_PART_BYTES = 8 * MIB
_PARTS_MAX = 10_000
_PARTS_AT_ONCE = 4
# A smaller object goes in one request.
_MULTIPART_BYTES = 2 * _PART_BYTES
_TRANSFERS_MAX = 8
_TURN_S = 30.0
# A call is tried four times in all, twice by each library.
_CONNECT_S = 3
_ANSWER_S = 10
_TRIES = 2
# After so long without an answer to any call, the place is asked whether it answers; and for so long it may think.
_SILENT_S = 2.0
_PROBE_S = 6.0
# The first call may need credentials from elsewhere.
_ASK_S = 15.0
_LOOK_S = 0.5
# Before the store is asked again that did not answer, or that was not asked since.
_PAUSE_S = 2.0
_HEARD_S = 5.0
_RETRY_AFTER_S = 5
_MARK = "tracehouse-files"
_SILENT = "it takes requests and does not answer"

_S3_OPTIONS: dict[str, Any] = {
    "skip_instance_cache": True,
    "use_listings_cache": False,  # other processes write there, too
    "default_block_size": _PART_BYTES,
    "max_concurrency": _PARTS_AT_ONCE,
    "config_kwargs": {
        "connect_timeout": _CONNECT_S,
        "read_timeout": _ANSWER_S,
        "retries": {"mode": "standard", "total_max_attempts": _TRIES},
        "max_pool_connections": (_TRANSFERS_MAX + 1) * _PARTS_AT_ONCE,
    },
}

log = logging.getLogger(__name__)


class BlobUrlUnusable(Exception):
    """BLOB_URL names no place where files can be kept."""


class ObjectStore:
    """Any number of threads may share it. What names an object is its path below the URL."""

    def __init__(self, url: str) -> None:
        is_s3 = url.startswith(("s3://", "s3a://"))
        if "@" in urlsplit(url).netloc:
            raise BlobUrlUnusable("BLOB_URL has credentials in it: give them as AWS_ACCESS_KEY_ID and so on")
        try:
            files, root = url_to_fs(url, **(_S3_OPTIONS if is_s3 else {}))
        except ImportError as error:
            extra = "; pip install 'tracehouse-service[s3]' brings it" if is_s3 else ""
            raise BlobUrlUnusable(f"BLOB_URL needs a package that is not installed ({error.name}){extra}") from error
        except ValueError as error:
            raise BlobUrlUnusable(f"BLOB_URL names no kind of place that fsspec knows ({error})") from error
        if not root.strip("/"):
            raise BlobUrlUnusable("BLOB_URL names no bucket")
        if is_s3:
            files.retries = _TRIES
        self._files: AbstractFileSystem = files
        self._root: str = root
        self._is_s3 = is_s3
        self._errors = _errors(is_s3=is_s3)
        self._transfers = BoundedSemaphore(_TRANSFERS_MAX)
        self._lock = Lock()
        self._fault: str | None = None
        self._is_asking = False
        self._asked_at = -_HEARD_S
        self._heard_at = 0.0
        self._silent_at = 0.0
        self._is_probing = False

    def ping(self) -> None:
        """Ask the store, unless it was asked just now. Raises FilesUnavailable.

        Once it did not answer, nobody waits for it any more: it is asked on a thread of its own.
        """
        with self._lock:
            is_known = self._is_asking or monotonic() - self._asked_at < (_HEARD_S if self._fault is None else _PAUSE_S)
            fault = self._fault
            self._is_asking = self._is_asking or not is_known
        if fault is None:
            if not is_known:
                self._ask()
            return
        if not is_known:
            self._ask_meanwhile()
        raise _unavailable(fault)

    def size(self, name: str) -> int | None:
        """Return how many bytes the object has; None if it is not there."""
        with self._reaching(), suppress(FileNotFoundError):
            return int(self._do("info", self._path(name))["size"])
        return None

    def written_at(self, name: str) -> datetime | None:
        """Return when the object was written, by the store's clock; None if it is not there."""
        with self._reaching(), suppress(FileNotFoundError):
            path = self._path(name)
            modified: datetime = self._do("info", path)["LastModified"] if self._is_s3 else self._files.modified(path)
            return modified if modified.tzinfo is not None else modified.replace(tzinfo=UTC)
        return None

    def list(self, folder: str) -> Iterator[tuple[str, int]]:
        """Yield the names and sizes of all objects in the folder."""
        with self._reaching():
            found = self._do("find", self._path(folder), detail=True)
        for path, info in found.items():
            yield path.removeprefix(f"{self._root}/"), int(info["size"])

    def get(self, name: str, to: Path) -> None:
        """Write the object into the file. Raises FileNotFoundError."""
        with self._transferring():
            self._do("get_file", self._path(name), str(to))

    def put(self, name: str, source: Path) -> None:
        """Write the file under that name, where it is seen as soon as it is whole."""
        with self._transferring():
            options = {"chunksize": _PART_BYTES} if self._is_s3 else {}
            self._do("put_file", str(source), self._path(name), **options)

    def begin_upload(self, name: str, source: Path) -> "ObjectUpload | None":
        """Bring the bytes of a large file to the store, where nobody sees them before they are committed.

        None if the file is small, or the store cannot do that: `put` does it all.
        """
        byte_size = source.stat().st_size
        if not self._is_s3 or byte_size < _MULTIPART_BYTES:
            return None
        bucket, key, _ = self._files.split_path(self._path(name))
        with self._transferring():
            begun = self.call("create_multipart_upload", Bucket=bucket, Key=key)
            upload = ObjectUpload(self, {"Bucket": bucket, "Key": key, "UploadId": begun["UploadId"]})
            try:
                upload.send(source, byte_size)
            except BaseException:
                with suppress(FilesUnavailable, *self._errors):
                    upload.abort()
                raise
        return upload

    def remove(self, name: str) -> None:
        """Remove the object. It need not be there."""
        with self._reaching(), suppress(FileNotFoundError):
            self._do("rm_file", self._path(name))

    def remove_uploads(self, before: datetime) -> None:
        """Remove the bytes of uploads that were begun before then, and neither committed nor discarded."""
        if not self._is_s3:
            return
        bucket, prefix, _ = self._files.split_path(self._root)
        with self._reaching():
            found = self.call("list_multipart_uploads", Bucket=bucket, Prefix=f"{prefix}/" if prefix else "")
            for lost in found.get("Uploads", []):
                if lost["Initiated"] < before:
                    with suppress(FileNotFoundError):
                        self.call("abort_multipart_upload", Bucket=bucket, Key=lost["Key"], UploadId=lost["UploadId"])

    def call(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        """Call S3. Part of `ObjectUpload`."""
        answer: Mapping[str, Any] = self._do("call_s3", method, **arguments)
        return answer

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Part of `ObjectUpload`."""
        with self._reaching():
            yield

    @contextmanager
    def _transferring(self) -> Iterator[None]:
        try:
            with self._reaching():
                yield
        except FileNotFoundError:
            self._ask()  # a bucket that is not there neither has objects nor takes any
            raise

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Reach the store within the block. Raises FilesUnavailable, and lets FileNotFoundError through."""
        if self._fault is not None:
            self.ping()
        self._take_turn()
        try:
            yield
        except FileNotFoundError:
            raise
        except self._errors as error:
            if is_of_this_machine(error):
                raise
            # It is asked at the next call whether it answers at all.
            raise self._note_fault(error, asked_at=-_HEARD_S) from error
        finally:
            self._transfers.release()
        with self._lock:
            self._asked_at = monotonic()

    def _take_turn(self) -> None:
        began = monotonic()
        while not self._transfers.acquire(timeout=_LOOK_S):
            self._check_heard(began)
            if monotonic() - began > _TURN_S:
                raise _unavailable("too many files are on their way")

    def _do(self, method: str, *arguments: Any, within_s: float | None = None, **options: Any) -> Any:
        """Call the file system. Raises FilesUnavailable if the place falls silent; only asynchronous ones show that."""
        if not self._files.async_impl:
            return getattr(self._files, method)(*arguments, **options)
        return self._await(getattr(self._files, f"_{method}")(*arguments, **options), within_s)

    def _await(self, called: Coroutine[Any, Any, Any], within_s: float | None) -> Any:
        began = monotonic()
        answer = asyncio.run_coroutine_threadsafe(called, self._files.loop)
        try:
            while not wait_for([answer], _LOOK_S).done:
                if within_s is None:
                    self._check_heard(began)
                elif monotonic() - began > within_s:
                    raise TimeoutError
        except BaseException:
            answer.cancel()
            raise
        error = answer.exception()
        if error is None or isinstance(error, FileNotFoundError):
            self._heard_at = monotonic()
        if error is not None:
            raise error
        return answer.result()

    def _check_heard(self, began: float) -> None:
        """Raise FilesUnavailable if the place was found silent since then, and have it probed if nothing was heard."""
        since = max(began, self._heard_at)
        if self._silent_at > since:
            raise _unavailable(_SILENT)
        with self._lock:
            is_due = not self._is_probing and self._files.async_impl and monotonic() - since > _SILENT_S
            self._is_probing = self._is_probing or is_due
        if is_due:
            asyncio.run_coroutine_threadsafe(self._probe(), self._files.loop)

    async def _probe(self) -> None:
        try:
            async with asyncio.timeout(_PROBE_S):
                await self._files._cat_file(self._path(_MARK))
            self._heard_at = monotonic()
        except FileNotFoundError:
            self._heard_at = monotonic()
        except self._errors as error:
            self._silent_at = monotonic()
            self._note_fault(error, asked_at=monotonic())
        finally:
            self._is_probing = False

    def _ask(self) -> None:
        """Read the object that marks the place, which the first call writes. Raises FilesUnavailable."""
        mark = self._path(_MARK)
        try:
            try:
                self._do("cat_file", mark, within_s=_ASK_S)
            except FileNotFoundError:
                content = b"Tracehouse keeps files here, each under its SHA-256.\n"
                self._do("pipe_file", mark, content, within_s=_ASK_S)
        except self._errors as error:
            raise self._note_fault(error, asked_at=monotonic()) from error
        finally:
            self._is_asking = False
        with self._lock:
            was_away, self._fault, self._asked_at = self._fault is not None, None, monotonic()
        if was_away:
            log.info("the store of the files answers again")

    def _ask_meanwhile(self) -> None:
        def ask() -> None:
            with suppress(FilesUnavailable):
                self._ask()

        try:
            Thread(target=ask, name="asks for the files", daemon=True).start()
        except RuntimeError:  # no further thread can be started now
            self._is_asking = False

    def _note_fault(self, error: BaseException, *, asked_at: float) -> FilesUnavailable:
        fault = _describe(error)
        with self._lock:
            is_new, self._fault, self._asked_at = self._fault is None, fault, asked_at
        if is_new:
            log.warning("the store of the files does not answer", extra={"fault": fault})
        return _unavailable(fault)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


@dataclass(frozen=True)
class _Part:
    number: int
    start: int
    byte_size: int


class ObjectUpload:
    """An upload in parts. The object is there once it is committed, as a whole."""

    def __init__(self, store: ObjectStore, place: Mapping[str, str]) -> None:
        self._store = store
        self._place = place
        self._parts: list[dict[str, Any]] = []

    def send(self, source: Path, byte_size: int) -> None:
        """Part of `ObjectStore.begin_upload`."""
        part_bytes = max(_PART_BYTES, -(-byte_size // _PARTS_MAX))
        starts = range(0, byte_size, part_bytes)
        parts = [_Part(number, at, min(part_bytes, byte_size - at)) for number, at in enumerate(starts, 1)]
        with (
            source.open("rb") as file,
            ThreadPoolExecutor(_PARTS_AT_ONCE, thread_name_prefix="uploading") as executor,
        ):
            self._parts = [*executor.map(lambda part: self._send_part(file.fileno(), part), parts)]

    def commit(self) -> None:
        """Let the object be seen. Raises FilesUnavailable."""
        with self._store.reaching():
            try:
                self._store.call("complete_multipart_upload", **self._place, MultipartUpload={"Parts": self._parts})
            except FileNotFoundError as error:  # somebody has removed the parts
                raise _unavailable("an upload was lost") from error

    def discard(self) -> None:
        """Remove what was sent. Raises FilesUnavailable."""
        with self._store.reaching(), suppress(FileNotFoundError):
            self.abort()

    def abort(self) -> None:
        self._store.call("abort_multipart_upload", **self._place)

    def _send_part(self, descriptor: int, part: _Part) -> dict[str, Any]:
        data = os.pread(descriptor, part.byte_size, part.start)
        answer = self._store.call("upload_part", **self._place, PartNumber=part.number, Body=data)
        # The checksum that the library has computed, and the store compared.
        checks = {name: value for name, value in answer.items() if name == "ETag" or name.startswith("Checksum")}
        return {"PartNumber": part.number, **checks}


def _errors(*, is_s3: bool) -> tuple[type[Exception], ...]:
    """Return what is raised if the place does not answer, or refuses."""
    if not is_s3:
        return (OSError,)
    from aiohttp import ClientError as ConnectionBroken  # these come with the extra `s3`
    from botocore.exceptions import BotoCoreError, ClientError

    return (OSError, BotoCoreError, ClientError, ConnectionBroken)


def _describe(error: BaseException) -> str:
    """Say what is wrong in words that may be shown to anybody: the library's own may name keys and addresses."""
    if isinstance(error, FileNotFoundError):
        return "there is no such bucket"
    if isinstance(error, PermissionError):
        return "it refuses the service's credentials"
    if isinstance(error, TimeoutError):
        return _SILENT
    return f"no usable answer ({type(error).__name__})"


def _unavailable(fault: str) -> FilesUnavailable:
    return FilesUnavailable(f"the store of the files: {fault}", retry_after_s=_RETRY_AFTER_S)
