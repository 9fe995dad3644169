"""The picture reader, a child program: makes an input of one picture, as the tracer makes one of a sample."""

import io

import torch

from service.protocol.messages import FailureReply
from service.protocol.picture import PictureRead, ReadPicture
from service.sandbox.channel import Channel
from tracehouse.errors import PictureUnreadable
from tracehouse.torch_values.images import ImageUnreadable, read_image
from tracehouse.torch_values.tensors import to_bytes


def main(channel: Channel, files: list[int]) -> None:  # noqa: ARG001
    header, body = channel.receive()
    request = ReadPicture.model_validate(header)
    torch.set_num_threads(1)
    try:
        picture = read_image(io.BytesIO(body), request.format, request.pixels_max)
    except ImageUnreadable as error:
        _fail(channel, str(error))
    except (MemoryError, RuntimeError):  # torch's, if no memory is left
        _fail(channel, "it needs more memory than a process may have")
    else:
        channel.send(PictureRead(shape=[*picture.shape]).model_dump(mode="json"), to_bytes(picture))


def _fail(channel: Channel, reason: str) -> None:
    channel.send(FailureReply.of(PictureUnreadable(reason)).model_dump(mode="json"))
