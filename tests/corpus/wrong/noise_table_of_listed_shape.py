"""A table is filled in the shape of the example, which a list of ints keeps."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        shape = [int(size) for size in x.shape]  # fault
        return x + torch.linspace(0, 1, shape[0] * shape[1]).reshape(shape)  # fault


def example():
    return (torch.randn(2, 6),), {}


def others():
    return [
        ((torch.randn(3, 4),), {}),
        ((torch.randn(5, 6),), {}),
    ]
