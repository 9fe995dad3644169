"""Stochastic depth that is not switched off."""

import random

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            if random.random() > 0.5:  # fault
                x = x + layer(x)
        return x


def example():
    return (torch.randn(1, 2),), {}


def others():
    return [
        ((torch.randn(1, 2),), {}),
    ]
