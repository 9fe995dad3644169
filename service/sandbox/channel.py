"""A channel: frames between a parent and its child, over a connected unix stream socket.

A frame is a JSON object followed by raw bytes. Declared lengths are checked against bounds, and cost no memory before
that many bytes have come. The body may lie in shared memory instead: then the frame says so, and ends before it.
"""

import contextlib
import math
import os
import select
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Protocol

import orjson
from pydantic import JsonValue

from service.sandbox.shared_bodies import SharedBodies
from tracehouse.byte_units import MIB

HEADER_MAX_BYTES = 16 * MIB
# A trace request goes to a child as one header. Written anew, numbers such as 1e15 take four times the bytes that they
# took in the body, which may have 16 MiB by default.
SENT_HEADER_MAX_BYTES = 128 * MIB
BODY_MAX_BYTES = 1024 * MIB

Header = dict[str, JsonValue]
Buffer = bytes | bytearray | memoryview
Frame = tuple[Header, Sequence[Buffer]]

LENGTHS = struct.Struct("<IQ")  # of the header and of the body
_IS_SHARED = 1 << 63  # beside the length of a body that lies in shared memory
SMALL_BYTES = 64 * 1024
_STEP_BYTES = 8 * MIB
_BUFFERS_PER_CALL = 1024  # IOV_MAX on Linux and macOS


class ChannelClosed(Exception):
    """The other side is gone, or has closed the channel."""


class MalformedFrame(Exception):
    """A frame is over its bounds, or its header is not a JSON object."""


class Drain(Protocol):
    """A descriptor that is emptied while a channel waits, because the other side may block when it is full."""

    ended: bool

    def fileno(self) -> int: ...
    def drain(self) -> None: ...


class Channel:
    """A blocking channel, for one thread at a time. `until` is a point on `time.monotonic()`.

    A large body need not be held whole: `receive_header`, then `copy_body`.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        header_max_bytes: int = HEADER_MAX_BYTES,
        body_max_bytes: int = BODY_MAX_BYTES,
        beside: Drain | None = None,
    ) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._bounds = (header_max_bytes, body_max_bytes)
        self._beside = beside
        self._buffer = memoryview(bytearray(SMALL_BYTES))
        self._ahead = self._buffer[:0]
        self._body_left = 0
        self._whole = True
        self._bodies: SharedBodies | None = None
        self._is_shared = False  # the body that is to be received

    def share_bodies(self, bodies: SharedBodies) -> None:
        """Let large bodies lie in this memory from now on. The other side does the same, and both take turns."""
        self._bodies = bodies

    def send(self, header: Header, *buffers: Buffer, until: float | None = None) -> None:
        """Send one frame, its body the buffers one after the other. After a TimeoutError the channel is unusable."""
        self.send_frames([(header, buffers)], until)

    def send_frames(self, frames: Iterable[Frame], until: float | None = None) -> None:
        """Send several frames at once."""
        parts = [part for header, buffers in frames for part in pack_to_send(header, buffers, self._bodies)]
        while parts:
            try:
                # Written like a file: the jail allows no call that is only for sockets.
                sent = os.writev(self._socket.fileno(), parts[:_BUFFERS_PER_CALL])
            except BlockingIOError:
                wait_for(self._socket, select.POLLOUT, until, self._beside)
            except ConnectionError as error:
                raise ChannelClosed("the other side is gone") from error
            else:
                parts = _drop_sent(parts, sent)

    def is_ready(self, until: float) -> bool:
        """Whether a frame has begun to arrive by then."""
        if not self._ahead:
            with contextlib.suppress(TimeoutError):
                self._read_ahead(until)
        return bool(self._ahead)

    def receive(self, until: float | None = None) -> tuple[Header, bytearray]:
        """Receive the next frame. A TimeoutError before its first byte leaves the channel usable.

        What has arrived already is read at once, also after `until`, but nothing further.
        """
        header, _ = self.receive_header(until)
        return header, self.receive_body(until)

    def receive_header(self, until: float | None = None) -> tuple[Header, int]:
        """Receive a header; return it with the size of the body, which must be received before the next header."""
        if not self._whole:
            raise RuntimeError("the frame before was not received whole")
        if not self._ahead:
            self._read_ahead(until)
        self._whole = False
        header_bytes, self._body_left, self._is_shared = unpack_lengths(self._read(LENGTHS.size, until), *self._bounds)
        header = unpack_header(self._read(header_bytes, until))
        self._whole = self._body_left == 0
        if self._bodies is not None:
            self._bodies.note_answer()
        return header, self._body_left

    def receive_body(self, until: float | None = None) -> bytearray:
        body = self._take_shared()
        while self._body_left:
            start = len(body)
            body += bytes(min(self._body_left, max(start, _STEP_BYTES)))
            with memoryview(body) as view:
                self._read_into(view[start:], until)
            self._body_left -= len(body) - start
        self._whole = True
        return body

    def copy_body(self, file: "Writable", until: float | None = None) -> None:
        """Write the body to `file` as it arrives."""
        if shared := self._take_shared():
            file.write(memoryview(shared))
        step = memoryview(bytearray(min(self._body_left, MIB)))
        while self._body_left:
            part = step[: self._body_left]
            self._read_into(part, until)
            file.write(part)
            self._body_left -= len(part)
        self._whole = True

    def close(self) -> None:
        self._socket.close()

    def _take_shared(self) -> bytearray:
        """Return the body if it lies in shared memory; else it is empty here, and comes through the socket."""
        if not self._is_shared:
            return bytearray()
        body = take_shared(self._bodies, self._body_left)
        self._body_left, self._is_shared = 0, False
        return body

    def _read(self, size: int, until: float | None) -> bytearray:
        data = bytearray(size)
        self._read_into(memoryview(data), until)
        return data

    def _read_into(self, view: memoryview, until: float | None) -> None:
        while view:
            # If the other side never stops sending, this never waits: so the clock is checked here too.
            if not self._ahead and until is not None and time.monotonic() > until:
                raise TimeoutError("not all of it came until the deadline")
            if not self._ahead and len(view) >= SMALL_BYTES:
                view = view[self._receive_into(view, until) :]
                continue
            if not self._ahead:
                self._read_ahead(until)
            size = min(len(view), len(self._ahead))
            view[:size] = self._ahead[:size]
            view, self._ahead = view[size:], self._ahead[size:]

    def _read_ahead(self, until: float | None) -> None:
        self._ahead = self._buffer[: self._receive_into(self._buffer, until)]

    def _receive_into(self, view: memoryview, until: float | None) -> int:
        while True:
            try:
                size = os.readv(self._socket.fileno(), [view])
            except BlockingIOError:
                wait_for(self._socket, select.POLLIN, until, self._beside)
                continue
            except ConnectionError as error:
                raise ChannelClosed("the other side is gone") from error
            if size == 0:
                raise ChannelClosed("the other side closed the channel")
            if self._beside is not None and not self._beside.ended:
                self._beside.drain()
            return size


class Writable(Protocol):
    def write(self, data: memoryview, /) -> object: ...


def pack_to_send(header: Header, buffers: Sequence[Buffer], bodies: SharedBodies | None) -> list[memoryview]:
    """Return one frame as the parts to send, without copying the buffers, unless they fit into shared memory.

    A channel's own bounds hold for what comes in; the other side checks what it takes. Raises MalformedFrame.
    """
    try:
        text = orjson.dumps(header)
    except TypeError as error:
        raise MalformedFrame(f"the header cannot be JSON: {error}") from error
    parts = [memoryview(buffer).cast("B") for buffer in buffers if memoryview(buffer).nbytes]
    byte_size = sum(map(len, parts))
    check_lengths(len(text), byte_size, SENT_HEADER_MAX_BYTES, BODY_MAX_BYTES)
    if bodies is not None:
        bodies.note_sent()
        if byte_size > SMALL_BYTES and bodies.put(parts, byte_size):
            return [memoryview(LENGTHS.pack(len(text), byte_size | _IS_SHARED) + text)]
    return [memoryview(LENGTHS.pack(len(text), byte_size) + text), *parts]


def unpack_lengths(data: Buffer, header_max_bytes: int, body_max_bytes: int) -> tuple[int, int, bool]:
    """Return the bytes of the header and of the body, and whether the body is shared. Raises MalformedFrame."""
    header_bytes, body_bytes = LENGTHS.unpack(data)
    is_shared = bool(body_bytes & _IS_SHARED)
    body_bytes &= ~_IS_SHARED
    check_lengths(header_bytes, body_bytes, header_max_bytes, body_max_bytes)
    return header_bytes, body_bytes, is_shared


def check_lengths(header_bytes: int, body_bytes: int, header_max_bytes: int, body_max_bytes: int) -> None:
    """Raises MalformedFrame."""
    if header_bytes > header_max_bytes:
        raise MalformedFrame(f"a header of {header_bytes} bytes is over the {header_max_bytes} allowed")
    if body_bytes > body_max_bytes:
        raise MalformedFrame(f"a body of {body_bytes} bytes is over the {body_max_bytes} allowed")


def take_shared(bodies: SharedBodies | None, byte_size: int) -> bytearray:
    """Return a copy of a body in shared memory. Raises MalformedFrame."""
    body = None if bodies is None else bodies.take(byte_size)
    if body is None:
        raise MalformedFrame(f"a body of {byte_size} bytes is not in shared memory")
    return body


def unpack_header(text: Buffer) -> Header:
    try:
        header = orjson.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedFrame(f"a header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise MalformedFrame(f"a header is a {type(header).__name__}, not an object")
    return header


def wait_for(sock: socket.socket, event: int, until: float | None, beside: Drain | None) -> None:
    """Wait for `event` on the socket and drain `beside` meanwhile. Raises TimeoutError after `until`."""
    while True:
        left_s = math.inf if until is None else until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("nothing came until the deadline")
        poller = select.poll()
        poller.register(sock, event)
        if beside is not None and not beside.ended:
            poller.register(beside, select.POLLIN)
        ready = dict(poller.poll(None if until is None else math.ceil(left_s * 1000)))
        if beside is not None and beside.fileno() in ready:
            beside.drain()
        if sock.fileno() in ready:
            return


def _drop_sent(parts: list[memoryview], sent: int) -> list[memoryview]:
    """Return what is left of `parts` after `sent` bytes."""
    for index, part in enumerate(parts):
        if sent < len(part):
            return [part[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []
