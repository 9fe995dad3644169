"""The gain of each call is the next of a cycle."""

import itertools

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gains = itertools.cycle([1.0, 1.0, 1.0, 1.0, 2.0])

    def forward(self, x):
        return x * next(self.gains)  # fault


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(2, 4),), {}) for _ in range(6)]
