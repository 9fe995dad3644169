"""Where blobs are kept, by the URL that the operator gives."""

from pathlib import Path

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import get_protocol

from service.storage.blob_cache import BlobCache, CacheLimits
from service.storage.blobs import Blobs
from service.storage.local_blobs import LocalBlobs
from service.storage.object_store import BlobUrlUnusable, ObjectStore
from service.storage.remote_blobs import RemoteBlobs


def open_blobs(url: str, cache: CacheLimits | None = None) -> Blobs:
    """Open blobs in a directory or, with a cache, in an object store. Raises BlobUrlUnusable."""
    if get_protocol(url) in LocalFileSystem.protocol:
        return LocalBlobs(Path(url_to_fs(url)[1]))
    if cache is None:
        raise BlobUrlUnusable("files that are kept elsewhere need a cache")
    return RemoteBlobs(ObjectStore(url), BlobCache(cache))
