"""A generator that the first call makes gives the same gain twice, and another one from then on."""

import itertools

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gains = None

    def make_gains(self):
        yield from itertools.repeat(1.0, 2)
        while True:
            yield 2.0

    def forward(self, x):
        if self.gains is None:  # fault
            self.gains = self.make_gains()
        return x * next(self.gains)  # fault


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
