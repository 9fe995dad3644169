"""Python sums the places, and the weighted mean divides by the example's sum."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        weights = torch.arange(1, x.shape[1] + 1)
        return (x * weights).sum(1) / sum(range(1, x.shape[1] + 1))  # fault


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 6),), {}),
        ((torch.randn(2, 2),), {}),
    ]
