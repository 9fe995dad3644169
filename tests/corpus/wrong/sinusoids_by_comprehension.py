"""A list comprehension computes the sinusoids for the example's positions."""

import math

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        table = torch.tensor([[math.sin(p / 10**d) for d in range(4)] for p in range(x.shape[1])])  # fault
        return x + table


def example():
    return (torch.randn(2, 3, 4),), {}


def others():
    return [
        ((torch.randn(2, 5, 4),), {}),
        ((torch.randn(2, 1, 4),), {}),
    ]
