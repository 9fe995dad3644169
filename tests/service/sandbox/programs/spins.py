"""Starts threads that wait, as many as it is told."""

import threading

from service.sandbox.channel import Channel


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    threading.stack_size(64 * 1024)
    done = threading.Event()
    for _ in range(header["threads"]):
        threading.Thread(target=done.wait, daemon=True).start()
    channel.send({"started": header["threads"]})
    done.wait()
