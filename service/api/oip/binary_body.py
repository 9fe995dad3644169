"""Bodies of the protocol's binary extension: JSON, and after it the bytes of tensors, one after the other.

Source: the Open Inference Protocol's "binary tensor data extension", as Triton and its clients speak it.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from fastapi import Request

from service.api.http import held
from service.api.http.body import read_text
from service.api.http.in_turn import run
from service.domain.errors import MalformedHeader, PayloadTooLarge, UnsupportedMediaType, UploadTruncated
from tracehouse.byte_units import MIB

JSON_BYTES_HEADER = "Inference-Header-Content-Length"
# A value that is no length of any body that is read.
_DIGITS_MAX = 18

# zlib's `wbits` for the content encodings that the protocol's clients send; deflate is a zlib stream.
_WINDOW_BITS = {"gzip": 31, "deflate": zlib.MAX_WBITS}
_STEP_BYTES = MIB


@dataclass(frozen=True, slots=True)
class BinaryBody:
    """A body's JSON, empty if the body is one tensor alone, and the bytes of its tensors."""

    json: bytes
    tensors: memoryview


async def read_body(request: Request, max_bytes: int, json_max_bytes: int) -> BinaryBody:
    """Read a body of at most so many bytes, of which `json_max_bytes` may be JSON. Its content type says nothing:
    clients send none, or any. A body with a content encoding may unpack to `json_max_bytes`: unpacked, a few bytes
    could fill the memory.

    Raises PayloadTooLarge, UnsupportedMediaType, MalformedHeader, UploadTruncated, RequestTimeout or ShuttingDown.
    """
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding in _WINDOW_BITS:
        packed = await read_text(request, json_max_bytes, encodings=_WINDOW_BITS.keys())
        body = await run(request, unpack, packed, encoding, json_max_bytes)
        held.hold_body(request, len(body))
    else:
        body = await read_text(request, max_bytes, encodings=_WINDOW_BITS.keys())
    lengths = request.headers.getlist(JSON_BYTES_HEADER)
    if len(lengths) > 1:
        raise MalformedHeader(f"there are several headers {JSON_BYTES_HEADER}", header=JSON_BYTES_HEADER)
    found = split_body(body, *lengths)
    if len(found.json) > json_max_bytes:
        raise PayloadTooLarge(f"the JSON of a body may have {json_max_bytes} bytes", limit=json_max_bytes)
    return found


def unpack(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Undo a content encoding, `gzip` or `deflate`. Raises PayloadTooLarge, UploadTruncated or UnsupportedMediaType."""
    unpacker = zlib.decompressobj(_WINDOW_BITS[encoding])
    unpacked = bytearray()
    try:
        for start in range(0, len(body), _STEP_BYTES):
            piece = body[start : start + _STEP_BYTES]
            if unpacker.eof or unpacker.unused_data:
                raise _trailing_bytes(encoding)
            while piece and not unpacker.eof:
                unpacked += unpacker.decompress(piece, min(_STEP_BYTES, max_bytes + 1 - len(unpacked)))
                piece = unpacker.unconsumed_tail
                if len(unpacked) > max_bytes:
                    raise PayloadTooLarge(f"unpacked, the body may have {max_bytes} bytes", limit=max_bytes)
    except zlib.error as error:
        raise UnsupportedMediaType(f"the body is not {encoding}", actual=encoding, supported=[*_WINDOW_BITS]) from error
    if not unpacker.eof:
        raise UploadTruncated(f"the body ends before its {encoding} does")
    if unpacker.unused_data:
        raise _trailing_bytes(encoding)
    return bytes(unpacked)


def _trailing_bytes(encoding: str) -> UnsupportedMediaType:
    return UnsupportedMediaType(f"something follows the {encoding}", actual=encoding, supported=[*_WINDOW_BITS])


def pack(body: bytes, encoding: str) -> bytes:
    """Return the body in a content encoding, `gzip` or `deflate`."""
    packer = zlib.compressobj(1, zlib.DEFLATED, _WINDOW_BITS[encoding])
    return packer.compress(body) + packer.flush()


def encoding_of_reply(accept_encoding: str) -> str | None:
    """Return the content encoding that the client asks for by naming no other.

    The asyncio client names several at each request, whether it gains from them or not: its replies stay as they are.
    """
    accepted = accept_encoding.strip().lower()
    return accepted if accepted in _WINDOW_BITS else None


def split_body(body: bytes, json_bytes: str | None = None) -> BinaryBody:
    """Split a body by the length of its JSON; without a length, all of it is JSON. Raises MalformedHeader."""
    if json_bytes is None:
        return BinaryBody(body, memoryview(b""))
    if not (json_bytes.isascii() and json_bytes.isdecimal()) or len(json_bytes) > _DIGITS_MAX:
        raise MalformedHeader(f"{JSON_BYTES_HEADER} is a number of bytes", header=JSON_BYTES_HEADER)
    length = int(json_bytes)
    if length > len(body):
        raise MalformedHeader(
            f"{JSON_BYTES_HEADER} is {length}, and the body has {len(body)} bytes",
            header=JSON_BYTES_HEADER, limit=len(body),
        )  # fmt: skip
    return BinaryBody(body[:length], memoryview(body)[length:])


def join_body(members: Mapping[str, object], tensors: list[bytes | bytearray | memoryview]) -> tuple[bytes, int]:
    """Return a body of JSON and tensors, and the length of the JSON."""
    text = orjson.dumps(members)
    return b"".join([text, *tensors]), len(text)
