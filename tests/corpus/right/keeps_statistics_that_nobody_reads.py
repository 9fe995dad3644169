"""Means of what it saw are kept in a dict, for a dashboard."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.statistics = {}

    def forward(self, x):
        self.statistics["mean"] = x.mean().item()
        self.statistics["rows"] = len(x)
        return self.layer(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(5, 3),), {}),
        ((torch.randn(1, 3),), {}),
    ]
