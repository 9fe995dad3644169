"""The standard error takes a power of a float of the number of samples."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        return x.std(0) / float(x.shape[0]) ** 0.5  # fault


def example():
    return (torch.randn(4, 2),), {}


def others():
    return [
        ((torch.randn(9, 2),), {}),
        ((torch.randn(30, 2),), {}),
    ]
