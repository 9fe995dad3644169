"""Halves an image twice and resizes it to what it was, traced on a small one; pictures are large."""

import torch
from torch import nn

OPEN = {"image": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, image):
        fine = self.first(image).relu()
        coarse = self.second(nn.functional.max_pool2d(fine, 4)).relu()
        coarse = nn.functional.interpolate(coarse, size=fine.shape[-2:], mode="bilinear", align_corners=False)
        return self.head(torch.cat([fine, coarse], 1))


def example():
    return (torch.randn(1, 3, 64, 64),), {}


def others():
    sizes = ((1, 224, 224), (4, 96, 130), (1, 1024, 48), (1, 33, 1000))
    return [((torch.randn(batch, 3, height, width),), {}) for batch, height, width in sizes]
