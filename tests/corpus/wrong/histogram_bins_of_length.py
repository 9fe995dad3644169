"""The number of bins is the length of the example."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        return torch.histc(x, bins=int(x.shape[0]), min=-2, max=2)  # fault


def example():
    return (torch.randn(4),), {}


def others():
    return [
        ((torch.randn(8),), {}),
        ((torch.randn(3),), {}),
    ]
