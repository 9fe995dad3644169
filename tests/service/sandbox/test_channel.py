"""Frames between two sockets of this process; what a hostile child sends is in test_child.py."""

import asyncio
import contextlib
import io
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvloop

from service.sandbox.async_channel import AsyncChannel, open_async
from service.sandbox.channel import (
    SENT_HEADER_MAX_BYTES,
    Channel,
    ChannelClosed,
    MalformedFrame,
)

MIB = 1024 * 1024


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    left, right = (Channel(sock) for sock in socket.socketpair())
    yield left, right
    left.close()
    right.close()


class Beside:
    """A pipe that a channel is to drain."""

    ended = False

    def __init__(self, read_end: int, write_end: int) -> None:
        self.read_end, self.write_end = read_end, write_end
        self.drained = b""

    def fileno(self) -> int:
        return self.read_end

    def drain(self) -> None:
        self.drained += os.read(self.read_end, 1000)


def send_meanwhile(channel: Channel, *frames: tuple) -> threading.Thread:
    thread = threading.Thread(target=lambda: [channel.send(*frame) for frame in frames])
    thread.start()
    return thread


def test_frames_arrive_whole_and_in_order(pair):
    left, right = pair
    left.send({"n": 1, "text": "≠"}, b"body")
    left.send({"n": 2})

    assert right.receive() == ({"n": 1, "text": "≠"}, b"body")
    assert right.receive() == ({"n": 2}, b"")


@pytest.mark.parametrize("size", [1, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 8 * MIB, 45 * MIB + 1])
def test_a_body_of_any_size_arrives_as_it_was_sent(pair, size):
    left, right = pair
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    sending = send_meanwhile(left, ({"n": 1}, body), ({"n": 2}, b"next"))

    assert right.receive() == ({"n": 1}, body)
    assert right.receive() == ({"n": 2}, b"next")
    sending.join()


def test_a_body_is_the_buffers_one_after_the_other(pair):
    left, right = pair
    matrix = memoryview(b"abcdef").cast("B", (2, 3))
    left.send({}, b"", matrix, memoryview(bytearray(b"gh")), *[b"i"] * 3000)

    assert right.receive() == ({}, b"abcdefgh" + b"i" * 3000)


def test_a_large_body_is_copied_to_a_file(pair):
    left, right = pair
    body = bytes(5 * MIB) + b"end"
    sending = send_meanwhile(left, ({"kind": "file"}, body), ({"kind": "traced"},))
    file = io.BytesIO()

    assert right.receive_header() == ({"kind": "file"}, len(body))
    right.copy_body(file)
    assert file.getvalue() == body
    assert right.receive() == ({"kind": "traced"}, b"")
    sending.join()


def test_a_body_must_be_received_before_the_next_header(pair):
    left, right = pair
    left.send({}, b"body")
    right.receive_header()

    with pytest.raises(RuntimeError):
        right.receive_header()


def test_a_deadline_without_a_frame_leaves_the_channel_as_it_was(pair):
    left, right = pair
    with pytest.raises(TimeoutError):
        right.receive(until=time.monotonic() + 0.01)
    with pytest.raises(TimeoutError):
        right.receive(until=time.monotonic() - 1)

    left.send({"n": 1})
    assert right.receive(until=time.monotonic()) == ({"n": 1}, b"")


def test_a_body_that_never_stops_coming_is_not_received_beyond_the_deadline(pair):
    left, right = pair

    def send_until_it_breaks() -> None:
        with contextlib.suppress(ChannelClosed):
            left.send({}, bytes(1024 * MIB))

    sending = threading.Thread(target=send_until_it_breaks)
    sending.start()
    right.receive_header()
    with pytest.raises(TimeoutError):
        right.copy_body(io.BytesIO(), until=time.monotonic() + 0.02)
    right.close()
    sending.join()


def test_whether_a_frame_comes_can_be_asked(pair):
    left, right = pair
    assert not right.is_ready(until=time.monotonic() + 0.01)

    left.send({"n": 1})
    left.send({"n": 2})

    assert right.is_ready(until=time.monotonic() + 30)
    assert right.receive() == ({"n": 1}, b"")
    assert right.is_ready(until=time.monotonic())
    assert right.receive() == ({"n": 2}, b"")


def test_what_is_beside_a_channel_is_drained_though_it_never_waits():
    ours, theirs = socket.socketpair()
    beside = Beside(*os.pipe())
    left, right = Channel(theirs), Channel(ours, beside=beside)
    left.send({}, bytes(100))
    os.write(beside.write_end, b"printed")

    right.receive()

    assert beside.drained == b"printed"
    left.close()
    right.close()


def test_a_deadline_ends_a_send_that_nobody_receives(pair):
    left, _ = pair
    with pytest.raises(TimeoutError):
        left.send({}, bytes(10 * MIB), until=time.monotonic() + 0.01)


def test_the_end_of_the_other_side_is_told_to_both_directions(pair):
    left, right = pair
    left.send({"last": True})
    left.close()

    assert right.receive() == ({"last": True}, b"")
    with pytest.raises(ChannelClosed):
        right.receive()
    with pytest.raises(ChannelClosed):
        right.send({})


def test_the_bounds_are_on_what_comes():
    ours, theirs = socket.socketpair()
    bounded, other = Channel(ours, header_max_bytes=1000, body_max_bytes=1000), Channel(theirs)
    header, body = {"text": "x" * 2000}, bytes(2000)
    bounded.send(header, body)
    assert other.receive() == (header, body)
    other.send(header)
    with pytest.raises(MalformedFrame):
        bounded.receive()
    bounded.close()
    other.close()


def test_a_child_takes_a_longer_header_than_its_parent():
    """A trace request may be longer as a header than as the body in which it came."""
    ours, theirs = socket.socketpair()
    parent, child = Channel(ours), Channel(theirs, header_max_bytes=SENT_HEADER_MAX_BYTES)
    header = {"text": "x" * 20 * MIB}
    sending = threading.Thread(target=parent.send, args=(header,))
    sending.start()

    assert child.receive() == (header, b"")
    sending.join()
    parent.close()
    child.close()


@pytest.mark.parametrize(
    "header",
    [{"text": "x" * SENT_HEADER_MAX_BYTES}, {"odd": object()}, {"odd": "\ud800"}],
    ids=["long", "an object", "a surrogate"],
)
def test_a_frame_that_is_no_frame_is_not_sent(header):
    sock, other = socket.socketpair()
    with other:
        channel = Channel(sock)
        with pytest.raises(MalformedFrame):
            channel.send(header)
        channel.close()

        assert other.recv(1) == b""


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_asyncio_and_threads_understand_each_other(new_loop):
    async def talk(channel: AsyncChannel) -> None:
        for size in (0, 10, 100_000, 9 * MIB):
            body = b"y" * size
            await channel.send({"size": size}, body)
            assert await channel.receive() == ({"size": size}, body)

    async def main() -> None:
        ours, theirs = socket.socketpair()
        channel, other = await open_async(ours), Channel(theirs)
        echo = threading.Thread(target=lambda: [other.send(*other.receive()) for _ in range(4)])
        echo.start()
        await talk(channel)
        echo.join()

        large = [b"1" * 100_000, b"2" * 100_000]
        together = threading.Thread(target=other.send_frames, args=([({}, [body]) for body in large],))
        together.start()
        assert [(await channel.receive())[1] for _ in large] == large
        together.join()

        other.close()
        with pytest.raises(ChannelClosed):
            await channel.receive()
        channel.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
