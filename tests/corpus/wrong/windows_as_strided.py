"""Overlapping windows are laid over the memory with sizes of the example."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        count = int(x.shape[0]) - 2  # fault
        return torch.as_strided(x.contiguous(), (count, 3), (1, 1)).mean(1)  # fault


def example():
    return (torch.randn(8),), {}


def others():
    return [
        ((torch.randn(12),), {}),
        ((torch.randn(20),), {}),
    ]
