"""Floods: more than a parent wants to hear, over the log and over the channel.

Without a jail the parent sets itself no bounds either, so that it is seen to keep all of it.
"""

import os
import struct
from typing import Any

from attacks.attack import attack
from attacks.judges import body_over, header_over, hurt, log_over, told

MIB = 2**20
# What the tests allow a child; see them.
LOG_MAX_BYTES = 64 * 1024
HEADER_MAX_BYTES = 64 * 1024
BODY_MAX_BYTES = MIB


def say(world: Any, data: bytes) -> None:
    os.set_blocking(world.channel_descriptor, True)
    view = memoryview(data)
    while view:
        view = view[os.write(world.channel_descriptor, view) :]


def frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<IQ", len(header), len(body)) + header + body


@attack(log_over(LOG_MAX_BYTES))
def floods_its_log(world: Any) -> Any:
    for _ in range(64):
        print("x" * (MIB // 16))


@attack(log_over(LOG_MAX_BYTES))
def floods_its_log_past_Python(world: Any) -> Any:
    for _ in range(64):
        os.write(2, b"x" * (MIB // 16))


@attack(log_over(LOG_MAX_BYTES))
def floods_its_log_without_one_line_s_end(world: Any) -> Any:
    for _ in range(1000):
        os.write(1, b"x" * 1000)


@attack(body_over(BODY_MAX_BYTES))
def floods_its_result(world: Any) -> Any:
    say(world, frame(b"{}", bytes(8 * MIB)))


@attack(header_over(HEADER_MAX_BYTES))
def floods_a_header(world: Any) -> Any:
    say(world, frame(b'{"a": "' + b"x" * MIB + b'"}'))


@attack(hurt, contained="the channel itself refuses it")
def declares_a_header_that_fills_memory(world: Any) -> Any:
    say(world, struct.pack("<IQ", 2**32 - 1, 0))
    return True


@attack(hurt, contained="the channel itself refuses it")
def declares_a_result_that_fills_memory(world: Any) -> Any:
    say(world, struct.pack("<IQ", 2, 2**64 - 1) + b"{}")


@attack(hurt, contained="the channel itself refuses it")
def nests_a_header_deeply(world: Any) -> Any:
    say(world, frame(b"[" * 60_000))


@attack(hurt, contained="the channel itself refuses it")
def nests_a_header_of_objects_deeply(world: Any) -> Any:
    say(world, frame(b'{"a":' * 12_000))


@attack(hurt, contained="the channel itself refuses it")
def says_what_is_no_JSON(world: Any) -> Any:
    say(world, frame(b"\x80\x04\x95"))


@attack(hurt, contained="its parent looks at the clock", wall_s=0.3)
def never_ends_what_it_says(world: Any) -> Any:
    say(world, struct.pack("<IQ", 2, BODY_MAX_BYTES) + b"{}")
    while True:
        say(world, b"x")
        os.sched_yield()


@attack(hurt, contained="its parent counts the frames", wall_s=0.3)
def tells_of_progress_without_end(world: Any) -> Any:
    while True:
        say(world, frame(b'{"kind": "progress", "stage": "tracing", "progress": 0.5}') * 100)


@attack(told("\x1b]0;"), contained="a log's control characters are escaped wherever it is read")
def takes_over_the_terminal_that_its_log_is_read_on(world: Any) -> Any:
    print("\x1b]0;was here\x07\x1b[2J")
