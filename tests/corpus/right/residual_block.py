"""A residual block with a projected shortcut."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1)
        )
        self.shortcut = nn.Conv2d(4, 8, 1, 2)

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def example():
    return (torch.randn(1, 4, 8, 8),), {}


def others():
    return [
        ((torch.randn(2, 4, 10, 6),), {}),
        ((torch.randn(1, 4, 7, 9),), {}),
    ]
