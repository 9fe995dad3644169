"""A three-dimensional network."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 2, 3, 4]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(1, 2, 3, padding=1)
        self.norm = nn.GroupNorm(1, 2)

    def forward(self, x):
        return F.max_pool3d(F.elu(self.norm(self.conv(x))), 2)


def example():
    return (torch.randn(1, 1, 4, 4, 4),), {}


def others():
    return [
        ((torch.randn(2, 1, 4, 6, 2),), {}),
        ((torch.randn(1, 1, 5, 4, 4),), {}),
    ]
