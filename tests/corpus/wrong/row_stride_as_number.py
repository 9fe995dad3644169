"""A stride is a number of Python: flat indices are computed with the example's."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        step = x.stride(0)  # fault
        flat = x.reshape(-1)
        rows = torch.arange(x.shape[0])
        return flat[rows * step]  # fault


def example():
    return (torch.randn(3, 4),), {}


def others():
    return [
        ((torch.randn(3, 6),), {}),
        ((torch.randn(5, 2),), {}),
    ]
