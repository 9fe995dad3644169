"""A matrix that is its own transpose is doubled: asked by a function of torch, which no warning names."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if torch.allclose(x, x.T):  # fault
            return x * 2
        return x


def example():
    return (torch.randn(3, 3),), {}


def others():
    return [
        ((torch.eye(3),), {}),
        ((torch.zeros(3, 3),), {}),
    ]
