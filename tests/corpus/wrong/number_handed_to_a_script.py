"""A scripted loop is told how often to run by a number of Python."""

import torch
from torch import nn

KIND = "size"


@torch.jit.script
def powers(x, times: int):
    total = x
    for _ in range(times):
        total = total * 0.5 + x
    return total


class Net(nn.Module):
    def forward(self, x):
        return powers(x, len(x))  # fault


def example():
    return (torch.randn(3, 2),), {}


def others():
    return [
        ((torch.randn(5, 2),), {}),
        ((torch.randn(1, 2),), {}),
    ]
