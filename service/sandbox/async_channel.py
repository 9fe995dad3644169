"""A channel for asyncio: frames as in `service.sandbox.channel`, received one by one or handed over as they come."""

import asyncio
import socket
from collections.abc import Callable

from service.sandbox.channel import (
    BODY_MAX_BYTES,
    HEADER_MAX_BYTES,
    LENGTHS,
    SMALL_BYTES,
    Buffer,
    ChannelClosed,
    Header,
    MalformedFrame,
    pack_to_send,
    take_shared,
    unpack_header,
    unpack_lengths,
)
from service.sandbox.shared_bodies import SharedBodies

Body = bytes | bytearray
OnFrame = Callable[[Header, Body], object]
OnEnd = Callable[[ChannelClosed | MalformedFrame], object]


class AsyncChannel(asyncio.Protocol):
    """A channel of the running loop. Frames wait for `receive`, one at a time, until `hand_to` says who takes them.

    After a malformed frame, nothing more is received.
    """

    def __init__(
        self,
        *,
        header_max_bytes: int = HEADER_MAX_BYTES,
        body_max_bytes: int = BODY_MAX_BYTES,
        bodies: SharedBodies | None = None,
    ) -> None:
        self._bounds = (header_max_bytes, body_max_bytes)
        self._bodies = bodies
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._whole_bytes = LENGTHS.size  # of the frame that arrives, as far as it is known
        self._frame: tuple[Header, Body] | None = None
        self._end: ChannelClosed | MalformedFrame | None = None
        self._receiver: asyncio.Future[None] | None = None
        self._sender: asyncio.Future[None] | None = None
        self._is_full = False
        self._on_frame: OnFrame | None = None
        self._on_end: OnEnd | None = None

    async def send(self, header: Header, *buffers: Buffer) -> None:
        """Send one frame, and wait until little of it is left here. Raises ChannelClosed and MalformedFrame."""
        self.write(header, *buffers)
        if self._is_full:
            self._sender = asyncio.get_running_loop().create_future()
            await self._sender
        if isinstance(self._end, ChannelClosed):
            raise self._end

    def write(self, header: Header, *buffers: Buffer) -> None:
        """Send one frame without waiting. If the other side is gone, that is told to whoever receives.

        Raises MalformedFrame.
        """
        is_gone = self._transport is None or self._transport.is_closing()
        parts = pack_to_send(header, buffers, None if is_gone else self._bodies)
        if self._transport is None or is_gone:
            return
        if sum(map(len, parts)) <= SMALL_BYTES:
            self._transport.write(b"".join(parts))  # a copy of this size is cheaper than one more system call
            return
        for part in parts:
            self._transport.write(part)

    async def receive(self) -> tuple[Header, Body]:
        """Receive the next frame. Raises ChannelClosed and MalformedFrame."""
        while self._frame is None:
            if self._end is not None:
                raise self._end
            self._receiver = asyncio.get_running_loop().create_future()
            await self._receiver
        frame, self._frame = self._frame, None
        self._take_frames()
        self._go_on_reading()
        return frame

    def hand_to(self, on_frame: OnFrame, on_end: OnEnd) -> None:
        """Hand each frame that comes from now on to `on_frame`, and call `on_end` once after the last of them."""
        self._on_frame, self._on_end = on_frame, on_end
        if self._frame is not None:
            frame, self._frame = self._frame, None
            on_frame(*frame)
        self._take_frames()
        self._go_on_reading()
        if self._end is not None:
            on_end(self._end)

    def close(self) -> None:
        """Close it at once, without sending what is still buffered."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # uvloop's is no subclass of asyncio's

    def data_received(self, data: bytes) -> None:
        if self._end is None:
            self._received += data
            self._take_frames()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._end_with(ChannelClosed("the other side closed the channel"))
        self.resume_writing()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._sender is not None and not self._sender.done():
            self._sender.set_result(None)

    def _take_frames(self) -> None:
        """Take the frames that are there: all of them if somebody takes them as they come, or else the next one."""
        try:
            while self._frame is None and self._end is None and len(self._received) >= self._whole_bytes:
                header_bytes, body_bytes, is_shared = unpack_lengths(self._received[: LENGTHS.size], *self._bounds)
                body_at = LENGTHS.size + header_bytes
                self._whole_bytes = body_at if is_shared else body_at + body_bytes
                if len(self._received) < self._whole_bytes:
                    return
                header = unpack_header(self._received[LENGTHS.size : body_at])
                body = self._take_body(body_at)
                if self._bodies is not None:
                    self._bodies.note_answer()
                self._deliver(header, take_shared(self._bodies, body_bytes) if is_shared else body)
        except MalformedFrame as error:
            self._end_with(error)

    def _take_body(self, body_at: int) -> Body:
        """Take the frame out of what was received, and return its body; if nothing follows it, without a copy."""
        if len(self._received) == self._whole_bytes > SMALL_BYTES:
            body, self._received = self._received, bytearray()
            del body[:body_at]
            return body
        copied = bytes(memoryview(self._received)[body_at : self._whole_bytes])
        del self._received[: self._whole_bytes]
        return copied

    def _deliver(self, header: Header, body: Body) -> None:
        self._whole_bytes = LENGTHS.size
        if self._on_frame is not None:
            self._on_frame(header, body)
            return
        self._frame = header, body
        if self._transport is not None:
            self._transport.pause_reading()
        self._wake_receiver()

    def _go_on_reading(self) -> None:
        if self._frame is None and self._transport is not None:
            self._transport.resume_reading()

    def _end_with(self, error: ChannelClosed | MalformedFrame) -> None:
        if self._end is not None:
            return
        self._end = error
        self._received.clear()
        self._wake_receiver()
        if self._on_end is not None:
            self._on_end(error)

    def _wake_receiver(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)


async def open_async(
    sock: socket.socket,
    *,
    header_max_bytes: int = HEADER_MAX_BYTES,
    body_max_bytes: int = BODY_MAX_BYTES,
    bodies: SharedBodies | None = None,
) -> AsyncChannel:
    """Return a channel of the running loop over `sock`, which it owns from now on. Large bodies lie in `bodies`."""
    channel = AsyncChannel(header_max_bytes=header_max_bytes, body_max_bytes=body_max_bytes, bodies=bodies)
    await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=sock)
    return channel
