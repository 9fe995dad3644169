"""Counts as far as it is told to without torch, so that what it is forked from starts at once."""

import struct
from typing import Any

OUTPUT = ["output", "FP32", [1]]


def main(channel: Any, files: list[int]) -> None:
    channel.receive()
    channel.send({"kind": "ready", "resident_bytes": 0})
    while True:
        _, body = channel.receive()
        (times,) = struct.unpack("<q", body)
        for _ in range(times):
            pass
        channel.send({"kind": "answer", "outputs": [OUTPUT]}, struct.pack("<f", times))
