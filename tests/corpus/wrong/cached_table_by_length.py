"""An lru_cache builds positions for each length, by an int."""

import functools

import torch
from torch import nn

KIND = "size"


@functools.lru_cache(maxsize=8)
def table(length):
    return torch.arange(length) * 0.1  # fault


class Net(nn.Module):
    def forward(self, x):
        return x + table(int(x.shape[1]))  # fault


def example():
    return (torch.randn(1, 3),), {}


def others():
    return [
        ((torch.randn(1, 5),), {}),
        ((torch.randn(2, 2),), {}),
    ]
