"""Sends every frame back, until its parent has had enough."""

from service.sandbox.channel import Channel


def main(channel: Channel, files: list[int]) -> None:
    while True:
        header, body = channel.receive()
        if "print" in header:
            print(header["print"] * header.get("times", 1))
        channel.send(header, body)
