"""Mixing over a fixed number of tokens, then over channels."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))
        self.channels = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4))

    def forward(self, x):
        x = x + self.tokens(x.transpose(1, 2)).transpose(1, 2)
        return x + self.channels(x)


def example():
    return (torch.randn(2, 6, 4),), {}


def others():
    return [
        ((torch.randn(1, 6, 4),), {}),
        ((torch.randn(7, 6, 4),), {}),
    ]
