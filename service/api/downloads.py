"""Blobs as downloads: streamed, in part if `Range` asks for a part, and not sent again to a client that has them."""

import re
from collections.abc import Generator
from typing import Any, BinaryIO
from urllib.parse import quote

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from service.api.http.in_turn import Stream
from service.api.problems import InternalError
from service.domain.errors import BlobMissing, ContentDamaged, FilesUnavailable
from service.storage.blobs import Blobs
from tracehouse.artifact.blob import BlobRef

# The content of a digest never changes. It still belongs to a tenant: no shared cache may show it to another.
IMMUTABLE = {"Cache-Control": "private, max-age=31536000, immutable", "Vary": "Authorization"}

# What may change: a client asks each time whether it did.
REVALIDATED = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}

# Any route that reads a blob or a manifest may answer these.
BLOB_ERRORS = (InternalError, BlobMissing, ContentDamaged, FilesUnavailable)

_CHUNK_BYTES = 2**18
_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))", re.ASCII)


def attachment(request: Request, blobs: Blobs, blob: BlobRef, *, filename: str) -> Response:
    """Return the blob as a file to save. Raises BlobMissing, ContentDamaged and FilesUnavailable."""
    headers = {
        "ETag": f'"{blob.digest}"',
        **IMMUTABLE,
        "Accept-Ranges": "bytes",
        "Content-Disposition": _disposition(filename),
    }
    if client_has(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    first, past = 0, blob.byte_size
    requested = request.headers.get("range")
    if requested is not None and request.headers.get("if-range", headers["ETag"]) == headers["ETag"]:
        first, past = _range(requested, blob.byte_size)
    partial = (first, past) != (0, blob.byte_size)
    if partial:
        headers["Content-Range"] = f"bytes {first}-{past - 1}/{blob.byte_size}"
    headers["Content-Length"] = str(past - first)
    file = blobs.open(blob.digest)
    return Stream(
        request,
        _read(file, first, past - first),
        file=file,
        status_code=206 if partial else 200,
        headers=headers,
        media_type="application/octet-stream",
    )


def _disposition(filename: str) -> str:
    """Name the file twice, because `curl -OJ` reads only the plain form, in which other characters are underscores."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename)}"


def partial_responses() -> dict[int | str, dict[str, Any]]:
    """Return, for a download's `responses`, the replies other than the whole file."""
    return {
        206: {"description": "The part that `Range` asks for."},
        304: {"description": "The file is the one in `If-None-Match`."},
    }


def client_has(request: Request, etag: str) -> bool:
    """Whether `If-None-Match` says that the client has this file already."""
    known = request.headers.get("if-none-match", "")
    return known.strip() == "*" or etag in (each.strip().removeprefix("W/") for each in known.split(","))


def _range(requested: str, byte_size: int) -> tuple[int, int]:
    """Return the requested range as (first, past). Several ranges, or one that cannot be read, mean the whole file."""
    match = _RANGE.fullmatch(requested.strip())
    if match is None:
        return 0, byte_size
    begin, end, suffix = match.groups()
    first = int(begin) if begin else max(byte_size - int(suffix), 0)
    past = min(int(end) + 1, byte_size) if end else byte_size
    if begin and end and int(end) < int(begin):
        return 0, byte_size
    if first >= past:
        raise HTTPException(416, headers={"Content-Range": f"bytes */{byte_size}"})
    return first, past


def _read(file: BinaryIO, first: int, length: int) -> Generator[bytes, None, None]:
    file.seek(first)
    while length > 0 and (chunk := file.read(min(length, _CHUNK_BYTES))):
        length -= len(chunk)
        yield chunk
