"""One method stores a value on self, another reads it."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def measure(self, x):
        self.level = float(x.std())  # fault

    def forward(self, x):
        self.measure(x)
        return x / (1 + self.level)  # fault


def example():
    return (torch.randn(4),), {}


def others():
    return [
        ((torch.randn(4) * 9,), {}),
        ((torch.zeros(4),), {}),
    ]
