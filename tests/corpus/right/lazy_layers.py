"""Lazy layers take their width from the first call."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))

    def forward(self, x):
        return self.layers(x)


def example():
    return (torch.randn(2, 5),), {}


def others():
    return [
        ((torch.randn(1, 5),), {}),
        ((torch.randn(9, 5),), {}),
    ]
