"""How long it took is kept for a log, and shows in no answer."""

import time

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.seconds = 0.0

    def forward(self, x):
        began = time.perf_counter()
        y = self.layer(x)
        self.seconds = time.perf_counter() - began
        return y


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(4, 3),), {}),
        ((torch.randn(1, 3),), {}),
    ]
