"""The padding of a convolution follows the length, and is a plain number in the graph."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 2, 3))

    def forward(self, x):
        return F.conv1d(x, self.weight, padding=x.size(2) // 2)  # fault


def example():
    return (torch.randn(1, 2, 6),), {}


def others():
    return [
        ((torch.randn(1, 2, 10),), {}),
        ((torch.randn(1, 2, 4),), {}),
    ]
