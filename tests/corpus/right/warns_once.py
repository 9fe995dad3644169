"""The first call warns that the model is old."""

import warnings

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.warned = False

    def forward(self, x):
        if not self.warned:
            warnings.warn("this model is kept for old clients")
            self.warned = True
        return self.layer(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(4, 3),), {}),
        ((torch.randn(1, 3),), {}),
    ]
