"""The window of a max pool is the shape itself, as in attention over channels."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Conv2d(2, 2, 1)

    def forward(self, x):
        largest, mean = F.max_pool2d(x, x.size()[2:]), F.avg_pool2d(x, (x.size(2), x.size(3)))
        return x * torch.sigmoid(self.gate(largest) + self.gate(mean))


def example():
    return (torch.randn(1, 2, 4, 4),), {}


def others():
    return [
        ((torch.randn(2, 2, 5, 7),), {}),
        ((torch.randn(1, 2, 16, 3),), {}),
    ]
