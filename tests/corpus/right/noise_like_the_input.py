"""A little noise, in the shape of the input. The artifact draws the same."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def forward(self, x):
        return x + 0.01 * torch.randn_like(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(5, 3),), {}),
    ]
