"""numpy tells the shape, as plain ints."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        rows, columns = x.detach().numpy().shape  # fault
        return x.sum(0) * (columns / rows)  # fault


def example():
    return (torch.randn(3, 2),), {}


def others():
    return [
        ((torch.randn(6, 2),), {}),
        ((torch.randn(2, 4),), {}),
    ]
