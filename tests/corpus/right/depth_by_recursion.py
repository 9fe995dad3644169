"""Python recurses to a depth of its configuration."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def forward(self, x):
        return self._deeper(x, 3)

    def _deeper(self, x, depth):
        return x if depth == 0 else self._deeper(x.tanh() + depth, depth - 1)


def example():
    return (torch.randn(3, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
        ((torch.randn(3, 4) * 3,), {}),
    ]
