"""A closure remembers how often it was called."""

import torch
from torch import nn

KIND = "state"


def make():
    calls = [0]

    def scale(x):
        calls[0] += 1  # fault
        return x / calls[0]  # fault

    return scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = make()

    def forward(self, x):
        return self.scale(x)  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]
