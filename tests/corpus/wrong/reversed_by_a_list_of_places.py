"""A list of places, reversed by Python, indexes the input."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        return x[list(range(x.shape[0]))[::-1]]  # fault


def example():
    return (torch.randn(3, 2),), {}


def others():
    return [
        ((torch.randn(5, 2),), {}),
        ((torch.randn(2, 2),), {}),
    ]
