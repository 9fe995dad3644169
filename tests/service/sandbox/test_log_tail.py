import asyncio
import os
from collections.abc import Iterator

import pytest

from service.sandbox.log_tail import LogTail
from tests.conftest import PATIENCE_S


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    out, into = os.pipe()
    yield out, into
    os.close(into)


def test_the_end_of_a_long_log_is_kept_and_what_was_cut_is_told(pipe):
    out, into = pipe
    log = LogTail(out, max_bytes=10)
    os.write(into, b"a beginning and ")
    os.write(into, b"an end")
    log.drain()

    assert log.cut_bytes == 12
    assert log.text() == "[12 bytes cut]\nand an end"
    log.close()
    assert log.text() == "[12 bytes cut]\nand an end"


def test_control_characters_cannot_reach_a_terminal(pipe):
    out, into = pipe
    log = LogTail(out, max_bytes=1000)
    os.write(into, b"\x1b[2Jred\x07\tnext\r\nline\xff \xc2\x9b31m" + "\u202e\u061c é\u200d".encode())
    log.drain()

    assert log.text() == "\\x1b[2Jred\\x07\tnext\nline\\xff \\x9b31m\\u202e\\u061c é\u200d"
    log.close()


def test_a_listener_sees_every_chunk(pipe):
    out, into = pipe
    chunks: list[bytes] = []
    log = LogTail(out, max_bytes=1, on_chunk=chunks.append)
    os.write(into, b"one ")
    log.drain()
    os.write(into, b"two")
    log.drain()

    assert chunks == [b"one ", b"two"]
    log.close()


def test_a_loop_drains_it():
    async def main() -> None:
        out, into = os.pipe()
        seen = asyncio.Event()
        log = LogTail(out, max_bytes=100, on_chunk=lambda _: seen.set())
        log.attach(asyncio.get_running_loop())
        os.write(into, b"hello")
        async with asyncio.timeout(PATIENCE_S):
            await seen.wait()

        assert log.text() == "hello"
        os.close(into)
        log.close()

    asyncio.run(main())
