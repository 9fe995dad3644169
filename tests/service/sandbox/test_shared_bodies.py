"""Large bodies in memory that both sides of a channel have: what comes of each is what comes through a socket."""

import asyncio
import errno
import mmap
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from service.sandbox.async_channel import AsyncChannel, open_async
from service.sandbox.channel import LENGTHS, SMALL_BYTES, Channel, MalformedFrame
from service.sandbox.limits import Limits
from service.sandbox.shared_bodies import MOST_BYTES, SharedBodies
from service.sandbox.zygote import Zygote
from tests.conftest import offered_tiers

LARGE = SMALL_BYTES + 1
# None of them is a whole number of pages, and the last two are too long for the memory, or go beside another one.
SIZES = [0, 1, SMALL_BYTES, LARGE, MOST_BYTES - 1, MOST_BYTES, MOST_BYTES + 1]
HERE = Path(__file__).parent


@pytest.fixture
def shared() -> Iterator[SharedBodies]:
    made = SharedBodies.make()
    assert made is not None
    yield made
    if made.descriptors[0] >= 0:
        made.close()


@pytest.fixture
def child_side(shared: SharedBodies) -> SharedBodies:
    return SharedBodies.in_child(*map(os.dup, shared.descriptors))


@pytest.fixture
def pair(shared: SharedBodies, child_side: SharedBodies) -> Iterator[tuple[Channel, Channel]]:
    parent, child = (Channel(sock) for sock in socket.socketpair())
    parent.share_bodies(shared)
    child.share_bodies(child_side)
    yield parent, child
    parent.close()
    child.close()


def meanwhile(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def put(bodies: SharedBodies, body: bytes) -> bool:
    return bodies.put([memoryview(body)], len(body))


def text_of(size: int, turn: int = 0) -> bytes:
    """Bytes that differ from place to place and from turn to turn."""
    return (bytes(range(turn, 251)) * (size // (251 - turn) + 1))[:size]


def test_bodies_of_all_sizes_arrive_whole_in_both_directions(pair: tuple[Channel, Channel]) -> None:
    parent, child = pair
    for turn, size in enumerate(SIZES * 2):
        body = text_of(size, turn)
        sending = meanwhile(lambda body=body: parent.send({"turn": 1}, body[:10], body[10:]))
        assert child.receive() == ({"turn": 1}, body)
        sending.join()
        sending = meanwhile(lambda body=body: child.send({"turn": 2}, body))
        assert parent.receive() == ({"turn": 2}, body)
        sending.join()


def test_a_large_body_is_not_in_the_socket(shared: SharedBodies) -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    channel.share_bodies(shared)
    channel.send({}, text_of(MOST_BYTES))

    sent = theirs.recv(SMALL_BYTES, socket.MSG_DONTWAIT)
    assert sent[LENGTHS.size :] == b"{}"
    with pytest.raises(BlockingIOError):
        theirs.recv(1, socket.MSG_DONTWAIT)
    channel.close()
    theirs.close()


def test_a_body_stays_until_the_other_side_has_answered(pair: tuple[Channel, Channel]) -> None:
    """Several frames in a row: the first one's body must not be written over."""
    parent, child = pair
    bodies = [text_of(LARGE, turn) for turn in range(3)]
    sending = meanwhile(lambda: child.send_frames([({}, [body]) for body in bodies]))
    assert [parent.receive()[1] for _ in bodies] == bodies
    sending.join()
    parent.send({"next": True})
    child.receive()
    sending = meanwhile(lambda: [child.send({}, body) for body in reversed(bodies)])
    assert [parent.receive()[1] for _ in bodies] == bodies[::-1]
    sending.join()


def test_what_was_received_does_not_change_with_the_next_body(pair: tuple[Channel, Channel]) -> None:
    parent, child = pair
    parent.send({}, b"1" * LARGE)
    _, first = child.receive()
    child.send({})
    parent.receive()
    parent.send({}, b"2" * LARGE)
    _, second = child.receive()

    assert (first, second) == (b"1" * LARGE, b"2" * LARGE)


def test_a_shared_body_can_be_copied_into_a_file(pair: tuple[Channel, Channel], tmp_path: Path) -> None:
    parent, child = pair
    body = text_of(LARGE)
    parent.send({"file": 1}, body)
    assert child.receive_header() == ({"file": 1}, LARGE)
    with (tmp_path / "body").open("wb") as file:
        child.copy_body(file)
    child.send({"next": True}, body)

    assert (tmp_path / "body").read_bytes() == body
    assert parent.receive() == ({"next": True}, body)


def test_the_memory_of_both_directions_counts(shared: SharedBodies, child_side: SharedBodies) -> None:
    assert shared.held_bytes == 0
    assert put(shared, text_of(MOST_BYTES))
    assert shared.held_bytes == MOST_BYTES
    assert put(child_side, text_of(MOST_BYTES, 1))
    assert shared.held_bytes == 2 * MOST_BYTES


def test_a_body_goes_through_the_socket_where_the_kernel_has_no_memory_for_it(
    pair: tuple[Channel, Channel], shared: SharedBodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, child = pair

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    sending = meanwhile(lambda: parent.send({}, text_of(MOST_BYTES)))

    assert child.receive() == ({}, text_of(MOST_BYTES))
    sending.join()
    assert shared.held_bytes == 0


def test_a_child_cannot_cut_the_memory_off_under_its_parent(shared: SharedBodies) -> None:
    for file in shared.descriptors:
        for size in (0, MOST_BYTES - 1, MOST_BYTES + 1):
            with pytest.raises(PermissionError):
                os.ftruncate(file, size)


def test_a_child_keeps_no_descriptor_of_the_memory(shared: SharedBodies) -> None:
    """With one, it could write without an end, and each write locks the file, for which its parent would wait."""
    before = sorted(os.listdir("/proc/self/fd"))
    child_side = SharedBodies.in_child(*map(os.dup, shared.descriptors))

    assert sorted(os.listdir("/proc/self/fd")) == before
    assert put(child_side, text_of(LARGE))
    assert shared.take(LARGE) == text_of(LARGE)


def test_a_child_that_frees_the_memory_is_read_as_zeros(shared: SharedBodies) -> None:
    with mmap.mmap(shared.descriptors[1], MOST_BYTES) as of_child:
        of_child[:LARGE] = text_of(LARGE)
        assert shared.take(LARGE) == text_of(LARGE)
        of_child.madvise(mmap.MADV_REMOVE, 0, MOST_BYTES)

    shared.note_sent()
    assert shared.take(LARGE) == bytes(LARGE)


@pytest.mark.parametrize("size", [MOST_BYTES + 1, 2**62])
def test_a_frame_that_claims_too_long_a_shared_body_is_malformed(pair: tuple[Channel, Channel], size: int) -> None:
    parent, child = pair
    os.write(child._socket.fileno(), LENGTHS.pack(2, size | 1 << 63) + b"{}")

    with pytest.raises(MalformedFrame):
        parent.receive()


def test_a_second_shared_body_in_a_turn_is_malformed(pair: tuple[Channel, Channel]) -> None:
    """Thousands of such frames fit into a socket at once, and each would cost the parent a copy."""
    parent, child = pair
    child.send({"turn": 1}, text_of(LARGE))
    assert parent.receive() == ({"turn": 1}, text_of(LARGE))
    os.write(child._socket.fileno(), LENGTHS.pack(2, LARGE | 1 << 63) + b"{}")

    with pytest.raises(MalformedFrame):
        parent.receive()


def test_closed_memory_holds_nothing_and_touches_no_other_file(shared: SharedBodies, tmp_path: Path) -> None:
    """Frames may still come when a child is gone. By then, its parent may have opened another file."""
    numbers = shared.descriptors
    with (tmp_path / "other").open("wb") as other:
        shared.close()
        for number in numbers:
            os.dup2(other.fileno(), number)
        try:
            assert shared.take(MOST_BYTES) is None
            assert not put(shared, text_of(LARGE))
            shared.note_answer()
            assert shared.held_bytes == 0
        finally:
            for number in numbers:
                os.close(number)

    assert (tmp_path / "other").stat().st_size == 0


def test_a_frame_that_claims_shared_memory_where_there_is_none_is_malformed() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    theirs.sendall(LENGTHS.pack(2, 5 | 1 << 63) + b"{}")
    with pytest.raises(MalformedFrame):
        channel.receive()
    channel.close()
    theirs.close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_asyncio_and_threads_understand_each_other(
    new_loop: Callable[[], asyncio.AbstractEventLoop], shared: SharedBodies, child_side: SharedBodies
) -> None:
    async def talk(channel: AsyncChannel) -> None:
        for turn, size in enumerate(SIZES):
            body = text_of(size, turn)
            await channel.send({"size": size}, body[:7], body[7:])
            assert await channel.receive() == ({"size": size}, body)

    async def main() -> None:
        ours, theirs = socket.socketpair()
        channel, other = await open_async(ours, bodies=shared), Channel(theirs)
        other.share_bodies(child_side)
        echo = meanwhile(lambda: [other.send(*other.receive()) for _ in SIZES])
        await talk(channel)
        echo.join()

        os.write(theirs.fileno(), LENGTHS.pack(2, MOST_BYTES + 1 | 1 << 63) + b"{}")
        with pytest.raises(MalformedFrame):
            await channel.receive()
        channel.close()
        other.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("tier", offered_tiers(), ids=str)
@pytest.mark.parametrize("profile", ["trace", "infer"])
def test_a_child_in_the_jail_shares_bodies(tier: object, profile: object, limits: Limits) -> None:
    large = limits.model_copy(update={"file_size_mib": 64})
    with (
        Zygote(["programs.echo"], path=[HERE], tier=tier) as zygote,
        zygote.fork("programs.echo", large, profile=profile, shares_bodies=True) as child,
    ):
        for turn, size in enumerate(SIZES):
            body = text_of(size, turn)
            sending = meanwhile(lambda size=size, body=body: child.channel.send({"size": size}, body))
            assert child.channel.receive() == ({"size": size}, body)
            sending.join()
        held_bytes = child.shared_bytes

    assert held_bytes == 2 * MOST_BYTES
    assert child.shared_bytes == 0


def test_a_child_answers_where_the_system_has_no_such_memory(
    zygote: Zygote, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with zygote.fork("programs.echo", limits, shares_bodies=True) as child:
        sending = meanwhile(lambda: child.channel.send({}, text_of(LARGE)))
        assert child.channel.receive() == ({}, text_of(LARGE))
        sending.join()
        assert child.shared_bytes == 0


def test_a_child_answers_where_its_parent_may_make_no_file_of_this_size(zygote: Zygote, limits: Limits) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES - 1, hard))
    try:
        child = zygote.fork("programs.echo", limits, shares_bodies=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with child:
        sending = meanwhile(lambda: child.channel.send({}, text_of(LARGE)))
        assert child.channel.receive() == ({}, text_of(LARGE))
        sending.join()


def test_no_descriptor_is_left_when_a_child_has_ended(zygote: Zygote, limits: Limits) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with zygote.fork("programs.echo", limits, shares_bodies=True) as child:
            child.channel.send({}, text_of(LARGE))
            child.channel.receive()

    assert sorted(os.listdir("/proc/self/fd")) == before
