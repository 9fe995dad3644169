"""A loop over every second step adds what the example has of them."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        total = x[:, 0] * 0
        for step in range(0, x.shape[1], 2):  # fault
            total = total * 0.5 + x[:, step]
        return total


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(2, 8),), {}),
        ((torch.randn(2, 5),), {}),
    ]
