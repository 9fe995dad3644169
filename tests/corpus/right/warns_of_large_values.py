"""A value is read, and decides only whether there is a warning."""

import warnings

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        if x.abs().max() > 1e4:
            warnings.warn("the input looks as if it were not normalised")
        return self.layer(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(5, 3) * 1e5,), {}),
        ((torch.randn(1, 3),), {}),
    ]
