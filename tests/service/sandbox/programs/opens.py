"""Opens the file that it is told of, and says what it read."""

from service.sandbox.channel import Channel


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    try:
        with open(str(header["path"])) as file:
            channel.send({"read": file.read()})
    except OSError as error:
        channel.send({"refused": repr(error)})
