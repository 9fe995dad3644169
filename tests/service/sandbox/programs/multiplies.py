"""Starts processes: a plain one, one in a session of its own, one whose parent is gone, and one that is both."""

import os
import signal

from service.sandbox.channel import Channel


def main(channel: Channel, files: list[int]) -> None:
    told, tell = os.pipe()
    for start in (plain, escaped, orphan, daemon):
        if os.fork() == 0:
            start(tell)
    with os.fdopen(told) as lines:
        started = dict(lines.readline().split() for _ in range(4))
    channel.send({name: int(pid) for name, pid in started.items()})
    header, _ = channel.receive()
    if header["end"]:
        return
    signal.pause()


def plain(tell: int, name: str = "plain") -> None:
    os.write(tell, f"{name} {os.getpid()}\n".encode())
    while True:
        signal.pause()


def escaped(tell: int, name: str = "escaped") -> None:
    os.setsid()
    plain(tell, name)


def orphan(tell: int) -> None:
    if os.fork() == 0:
        plain(tell, "orphan")
    os._exit(0)


def daemon(tell: int) -> None:
    if os.fork() == 0:
        escaped(tell, "daemon")
    os._exit(0)
