"""Stochastic depth whose gates are drawn as a tensor, one for each row. The artifact draws the same."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            gate = torch.empty(x.shape[0], 1).bernoulli_(0.8)
            x = x + gate * layer(x) / 0.8
        return x


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
    ]
