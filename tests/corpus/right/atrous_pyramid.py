"""ASPP with a global branch that is resized to the map."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(3, 2, 3, padding=d, dilation=d) for d in (1, 2))
        self.overall = nn.Conv2d(3, 2, 1)

    def forward(self, x):
        overall = F.interpolate(self.overall(F.adaptive_avg_pool2d(x, 1)), size=x.shape[-2:], mode="nearest")
        return torch.cat([*(branch(x) for branch in self.branches), overall], 1)


def example():
    return (torch.randn(1, 3, 6, 6),), {}


def others():
    return [
        ((torch.randn(2, 3, 5, 9),), {}),
        ((torch.randn(1, 3, 2, 2),), {}),
    ]
