"""The halves are swapped by a roll of the example's half length."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        return x + torch.roll(x, x.shape[1] // 2, dims=1)  # fault


def example():
    return (torch.randn(2, 6),), {}


def others():
    return [
        ((torch.randn(2, 10),), {}),
        ((torch.randn(2, 4),), {}),
    ]
