"""Slopes are drawn in training, and are their mean else."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.RReLU(), nn.AlphaDropout(0.3), nn.Linear(8, 2))

    def forward(self, x):
        return self.layers(x)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(120, 4),), {}),
    ]
