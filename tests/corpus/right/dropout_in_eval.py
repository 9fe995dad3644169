"""Dropout modules, which rest in eval mode."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2), nn.AlphaDropout(0.2))

    def forward(self, x):
        return F.dropout(self.layers(x), 0.3, training=self.training)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(7, 4),), {}),
    ]
