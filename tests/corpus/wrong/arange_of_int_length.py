"""Positions are counted up to a length that `int` took out of the trace."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        length = int(x.shape[1])  # fault
        return x + torch.arange(length)  # fault


def example():
    return (torch.randn(2, 5),), {}


def others():
    return [
        ((torch.randn(2, 7),), {}),
        ((torch.randn(3, 1),), {}),
    ]
