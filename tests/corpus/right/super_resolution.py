"""Sub-pixel convolutions."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"image": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.PReLU(), nn.Conv2d(4, 9, 3, padding=1), nn.PixelShuffle(3)
        )

    def forward(self, image):
        return self.body(image) + F.interpolate(image, scale_factor=3.0, mode="bicubic")


def example():
    return (torch.randn(1, 1, 4, 4),), {}


def others():
    return [
        ((torch.randn(2, 1, 5, 3),), {}),
        ((torch.randn(1, 1, 1, 1),), {}),
    ]
