"""Ends in the way that it is told to."""

import ctypes
import os
import signal
import sys

from service.sandbox.channel import Channel


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    print("these were my last words")
    match header["how"]:
        case "raise":
            raise ValueError("no good")
        case "sys.exit":
            sys.exit(5)
        case "os._exit":
            os._exit(7)
        case "segfault":
            ctypes.string_at(0)
        case "signal":
            os.kill(os.getpid(), signal.SIGTERM)  # ignored: only its parent ends it
            os.kill(os.getpid(), signal.SIGUSR1)
