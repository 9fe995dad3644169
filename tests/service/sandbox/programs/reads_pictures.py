"""Reads the pictures that it was given, as the zygote imported what that needs."""

import os

import torch

from service.sandbox.channel import Channel
from tracehouse.torch_values.images import ImageFormat, read_image


def main(channel: Channel, files: list[int]) -> None:
    shapes = []
    for file in files:
        with os.fdopen(file, "rb") as opened:
            shapes.append(list(read_image(opened, ImageFormat(3, torch.float32, (6, 7))).shape))
    channel.send({"shapes": shapes})
