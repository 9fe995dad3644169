"""Two channels of coordinates, spaced over the image's own height and width."""

import torch
from torch import nn

OPEN = {"x": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        batch, _, height, width = x.shape
        down = torch.linspace(-1, 1, height).view(1, 1, height, 1).expand(batch, 1, height, width)
        along = torch.linspace(-1, 1, width).view(1, 1, 1, width).expand(batch, 1, height, width)
        return self.convolution(torch.cat([x, down, along], 1))


def example():
    return (torch.randn(2, 2, 6, 5),), {}


def others():
    return [
        ((torch.randn(1, 2, 19, 4),), {}),
        ((torch.randn(4, 2, 3, 8),), {}),
    ]
