"""A child from its parent's side: frames, deadlines, every way to end, and what a hostile one may try."""

import asyncio
import os
import signal
import struct
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
import uvloop

from service.sandbox.channel import ChannelClosed, MalformedFrame
from tests.conftest import PATIENCE_S

MIB = 1024 * 1024


def frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<IQ", len(header), len(body)) + header + body


def test_large_bodies_go_there_and_back(zygote, limits, until):
    body = os.urandom(20 * MIB)
    with zygote.fork("programs.echo", limits) as child:
        child.channel.send({"n": 1}, body, until=until)
        header, echoed = child.channel.receive(until)

    assert header == {"n": 1}
    assert echoed == body


def test_a_child_has_the_files_it_was_given(zygote, limits, until, tmp_path):
    (tmp_path / "weights").write_text("weights")
    (tmp_path / "inputs").write_text("inputs")
    with (
        open(tmp_path / "weights") as weights,
        open(tmp_path / "inputs") as inputs,
        zygote.fork("programs.looks", limits, files=[weights.fileno(), inputs.fileno()]) as child,
    ):
        seen, _ = child.channel.receive(until)

    assert seen["files"] == ["weights", "inputs"]


def test_a_child_has_the_modules_that_it_is_to_import_and_others_do_not(zygote, limits, until):
    with (
        zygote.fork("programs.looks", limits) as another,
        zygote.fork("programs.looks", limits, imports=["programs.late"]) as child,
    ):
        seen = [one.channel.receive(until)[0]["has_late_module"] for one in (another, child)]

    assert seen == [False, True]


def test_a_child_whose_modules_start_a_thread_runs_nothing(zygote, limits, until):
    """Some walls would stand around one thread alone."""
    with zygote.fork("programs.echo", limits, imports=["programs.late_thread"]) as child:
        with pytest.raises(ChannelClosed):
            child.channel.receive(until)
        assert child.wait(until).code == 1
        assert "2 threads run after the imports" in child.log.text()


def test_what_traces_gives_way_and_what_answers_does_not(zygote, limits, until):
    with (
        zygote.fork("programs.echo", limits) as traces,
        zygote.fork("programs.echo", limits, answers=True) as answers,
    ):
        for child in (traces, answers):
            child.channel.send({})
            child.channel.receive(until)
        niceness = [os.getpriority(os.PRIO_PROCESS, child.pid) for child in (traces, answers)]

    assert niceness[0] > niceness[1] == os.nice(0)


def test_a_deadline_passes_while_the_child_thinks(zygote, limits, until):
    with zygote.fork("programs.echo", limits) as child:
        with pytest.raises(TimeoutError):
            child.channel.receive(until=time.monotonic() + 0.01)
        with pytest.raises(TimeoutError):
            child.wait(until=time.monotonic() + 0.01)

        child.channel.send({"still": "there"})
        assert child.channel.receive(until) == ({"still": "there"}, b"")


@pytest.mark.parametrize(
    ("how", "code", "by_signal", "last_words"),
    [
        ("return", 0, None, "these were my last words\n"),
        ("raise", 1, None, "ValueError: no good\n"),
        ("sys.exit", 1, None, "SystemExit: 5\n"),
        ("os._exit", 7, None, "these were my last words\n"),
        ("segfault", None, signal.SIGSEGV, 'programs/ends.py", line '),
        ("signal", None, signal.SIGUSR1, "these were my last words\n"),
    ],
)
def test_how_a_child_ended_is_told(zygote, limits, until, how, code, by_signal, last_words):
    with zygote.fork("programs.ends", limits) as child:
        child.channel.send({"how": how})
        ended = child.wait(until)

    assert (ended.code, ended.signal) == (code, by_signal)
    assert last_words in child.log.text()
    assert ended.maxrss_kib > 1000
    assert not ended.with_zygote


def test_the_end_of_a_child_ends_its_channel(zygote, limits, until):
    with zygote.fork("programs.ends", limits) as child:
        child.channel.send({"how": "os._exit"})
        with pytest.raises(ChannelClosed):
            child.channel.receive(until)


def test_leaving_the_block_kills_a_child_that_lives(zygote, limits, until):
    with zygote.fork("programs.devours", limits) as child:
        child.channel.send({"what": "cpu"})

    assert child.wait().signal == signal.SIGKILL


def test_any_thread_may_kill_a_child_that_another_waits_for(zygote, limits, until):
    with zygote.fork("programs.echo", limits) as child:
        killer = threading.Thread(target=child.kill)
        killer.start()
        with pytest.raises(ChannelClosed):
            child.channel.receive(until)
        killer.join()
        assert child.wait(until).signal == signal.SIGKILL

    child.kill()  # long gone, and that is fine


def test_64_mebibytes_printed_neither_block_the_child_nor_fill_memory(zygote, limits, until):
    with zygote.fork("programs.devours", limits, log_max_bytes=1000) as child:
        child.channel.send({"what": "log", "mib": 64})
        answer, _ = child.channel.receive(until)
        child.wait(until)

    assert answer == {"done": True}
    assert child.log.cut_bytes == 64 * MIB + len("the end\n") - 1000
    assert child.log.text().endswith("xxx\nthe end\n")


def test_a_child_that_prints_before_it_listens_does_not_block_the_sender(zygote, limits, until):
    with zygote.fork("programs.echo", limits) as child:
        child.channel.send({"print": "x", "times": MIB - 1})
        child.channel.send({}, bytes(10 * MIB), until=until)
        child.channel.receive(until)

    assert child.log.text() == "x" * (MIB - 1) + "\n"


def test_what_is_printed_is_heard_as_it_comes(zygote, limits, until):
    heard: list[bytes] = []
    with zygote.fork("programs.echo", limits, on_log=heard.append) as child:
        child.channel.send({"print": "naïve"})
        child.channel.receive(until)
        child.channel.send({"print": "second"})
        child.channel.receive(until)
        child.kill()
        child.wait(until)

    assert b"".join(heard).decode() == "naïve\nsecond\n"


@pytest.mark.parametrize(
    "lie",
    [
        struct.pack("<IQ", 2**32 - 1, 0),
        struct.pack("<IQ", 2, 2**64 - 1) + b"{}",
        frame(b"{"),
        frame(b"[]"),
        frame(b"null"),
        frame(b'"\xff"'),
        frame(b'{"a": NaN}'),
        frame(b"[" * MIB),
        frame(b'{"a":' * MIB),
        frame(b""),
    ],
    ids=["long header", "long body", "cut", "list", "null", "not UTF-8", "NaN", "deep list", "deep object", "empty"],
)
def test_a_malformed_frame_is_told_and_harms_nothing(zygote, limits, until, lie):
    with zygote.fork("programs.lies", limits) as child:
        child.channel.send({"stay": True}, lie)
        with pytest.raises(MalformedFrame):
            child.channel.receive(until)


@pytest.mark.parametrize("cut", [b"\x01", frame(b'{"a": 1}')[:-1], frame(b"{}", b"body")[:-1]])
def test_a_frame_cut_short_is_a_closed_channel(zygote, limits, until, cut):
    with zygote.fork("programs.lies", limits) as child:
        child.channel.send({"stay": False}, cut)
        with pytest.raises(ChannelClosed):
            child.channel.receive(until)


def test_a_declared_length_costs_no_memory(zygote, limits):
    tracemalloc.start()
    try:
        with zygote.fork("programs.lies", limits) as child:
            child.channel.send({"stay": True}, struct.pack("<IQ", 2, 1024 * MIB) + b"{}")
            child.channel.receive_header()
            with pytest.raises(TimeoutError):
                child.channel.receive_body(until=time.monotonic() + 0.05)
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("by_itself", [True, False])
def test_nothing_that_a_child_started_outlives_it(zygote, limits, until, gone, by_itself):
    with zygote.fork("programs.multiplies", limits) as child:
        left, _ = child.channel.receive(until)
        child.channel.send({"end": by_itself})
        if by_itself:
            assert child.wait(until).code == 0

    assert len(left) == 4
    assert all(gone(pid) for pid in left.values())


def test_the_end_of_one_child_spares_what_a_living_one_started(zygote, limits, until):
    with zygote.fork("programs.multiplies", limits) as child:
        started, _ = child.channel.receive(until)
        with zygote.fork("programs.echo", limits):
            pass

        assert all(Path(f"/proc/{started[name]}").exists() for name in ("plain", "escaped", "orphan"))


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_asyncio_talks_to_a_child_and_drains_its_log(zygote, limits, new_loop):
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), zygote.fork("programs.echo", limits, log_max_bytes=10) as child:
            channel = await child.open_async()
            for n in range(20):
                await channel.send({"n": n, "print": "x", "times": 100_000}, b"y" * 100_000)
                header, body = await channel.receive()
                assert (header["n"], body) == (n, b"y" * 100_000)
        assert child.log.cut_bytes == 20 * 100_001 - 10
        assert child.wait().signal == signal.SIGKILL

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_asyncio_caller_learns_how_a_child_ended(zygote, limits, new_loop):
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), zygote.fork("programs.ends", limits) as child:
            channel = await child.open_async()
            first, second = asyncio.create_task(child.wait_async()), asyncio.create_task(child.wait_async())
            await channel.send({"how": "os._exit"})
            assert (await first).code == (await second).code == 7
            with pytest.raises(ChannelClosed):
                await channel.receive()
        assert child.log.text() == "these were my last words\n"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
