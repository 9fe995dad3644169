"""Looks up the blur of a named resolution such as '12x20'; under trace str(size) reads 'tensor(12)'."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"
BLUR = {"12x20": 3, "24x40": 5}


class Net(nn.Module):
    def forward(self, x):
        h, w = x.shape[-2:]
        k = BLUR.get("x".join(map(str, (h, w))), 1)  # fault
        return F.avg_pool2d(x, k, stride=1, padding=k // 2, count_include_pad=False)


def image(h, w):
    return torch.cos(torch.arange(2.0 * h * w)).view(1, 2, h, w)


def example():
    return (image(8, 8),), {}


def others():
    return [((image(9, 16),), {}), ((image(12, 21),), {}), ((image(12, 20),), {}), ((image(20, 12),), {})]
