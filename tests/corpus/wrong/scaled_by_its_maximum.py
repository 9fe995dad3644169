"""The largest value is read as a number, and divides every later input."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        top = x.abs().max().item()  # fault
        return x / top  # fault


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3) * 10,), {}),
        ((torch.randn(2, 3),), {}),
    ]
