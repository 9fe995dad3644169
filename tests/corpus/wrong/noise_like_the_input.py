"""A little noise, in the shape of the input."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        return x + 0.01 * torch.randn_like(x)  # fault


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(5, 3),), {}),
    ]
