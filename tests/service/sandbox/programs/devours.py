"""Uses more than its share of what it is told to."""

import os
from contextlib import suppress

from service.sandbox.channel import Channel

MIB = 1024 * 1024


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    match header["what"]:
        case "log":
            for _ in range(header["mib"]):
                print("x" * (MIB - 1))
            print("the end")
        case "memory":
            channel.send({"held": hold_memory(header["mib"])})
        case "cpu":
            while True:
                pass
        case "file":
            with open(header["path"], "wb", buffering=0) as file:
                file.write(bytes(2 * MIB))
                file.write(bytes(2 * MIB))
        case "descriptors":
            while True:
                os.dup(0)
    channel.send({"done": True})


def hold_memory(mib: int) -> int:
    held: list[bytearray] = []
    with suppress(MemoryError):
        held.extend(bytearray(MIB) for _ in range(mib))
    return len(held)
