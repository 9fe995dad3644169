"""A branch on a parameter, which is the same at every call."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.gate = nn.Parameter(torch.tensor([0.3, -0.2]))

    def forward(self, x):
        y = self.layer(x)
        if self.gate.abs().sum() > 1e-8:
            y = y * self.gate.tanh()
        return y


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(5, 3),), {}),
        ((torch.randn(1, 3),), {}),
    ]
