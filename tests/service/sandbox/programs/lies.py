"""Sends whatever bytes it was given, as if they were a frame."""

import socket

from service.sandbox.channel import Channel


def main(channel: Channel, files: list[int]) -> None:
    header, body = channel.receive()
    raw: socket.socket = channel._socket
    raw.setblocking(True)
    raw.sendall(body)
    if header["stay"]:
        channel.receive()
