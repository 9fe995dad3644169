"""Traces as a tracing child does, tells when, and stays until it is told to go."""

from service.protocol.tracer import Trace
from service.sandbox.channel import Buffer, Channel, Header
from workers.programs.tracer import Tracing


class Nobody(Channel):
    """Hears nothing of it."""

    def __init__(self) -> None:
        pass

    def send(self, header: Header, *buffers: Buffer, until: float | None = None) -> None:
        pass


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    Tracing(Nobody(), Trace.model_validate(header), files).run()
    channel.send({"traced": True})
    channel.receive()
