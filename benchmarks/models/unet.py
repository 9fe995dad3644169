"""A U-Net (arXiv:1505.04597) with padded convolutions: `unet:unet`, an input of FP32 [1, 3, 128, 128]."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional


def convolve_twice(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(),
        nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, widths: list[int], classes: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(convolve_twice(*pair) for pair in zip([3, *widths], widths, strict=False))
        pairs = [*pairwise(widths)][::-1]
        self.grow = nn.ModuleList(nn.ConvTranspose2d(deep, shallow, 2, 2) for shallow, deep in pairs)
        self.up = nn.ModuleList(convolve_twice(2 * shallow, shallow) for shallow, _ in pairs)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for block in self.down[:-1]:
            x = block(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.down[-1](x)
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat([kept.pop(), grow(x)], 1))
        return self.head(x)


def unet() -> UNet:
    return UNet([16, 32, 64, 128], classes=2)
