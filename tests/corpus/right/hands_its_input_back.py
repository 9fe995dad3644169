"""Its input is among its outputs, and a view of it."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def forward(self, x):
        return x, x.view(-1), x + 1


def example():
    return (torch.randn(3, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
        ((torch.randn(3, 4) * 3,), {}),
    ]
