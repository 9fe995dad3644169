"""Reads the pictures that it was given, as the zygote imported what that needs."""

import os

from service.sandbox.channel import Channel
from tracehouse.spec.image_format import ImageFormat
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.images import read_image


def main(channel: Channel, files: list[int]) -> None:
    shapes = []
    for file in files:
        with os.fdopen(file, "rb") as opened:
            shapes.append(list(read_image(opened, ImageFormat(channels=3, datatype=Datatype.FP32, size=(6, 7))).shape))
    channel.send({"shapes": shapes})
