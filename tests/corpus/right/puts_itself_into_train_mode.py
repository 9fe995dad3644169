"""forward begins with self.train(), as a copied training step does. The artifact draws the same."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.4), nn.Linear(8, 2))

    def forward(self, x):
        self.train()
        return self.layers(x)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
    ]
