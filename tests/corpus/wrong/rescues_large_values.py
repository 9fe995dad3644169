"""Values above ten thousand are scaled down, which no usual input needs."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if x.abs().max() > 1e4:  # fault
            x = x / x.abs().max()
        return x.exp().sum(-1)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.tensor([[1.0, 2e4, 3.0], [1.0, 1.0, 1.0]]),), {}),
        ((torch.randn(2, 3),), {}),
    ]
