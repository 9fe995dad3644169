"""Small batches go one way, large ones another, deep in a helper."""

import torch
from torch import nn

KIND = "size"


def pooled(x):
    if x.size(0) >= 3:  # fault
        return x.amax(0)
    return x.mean(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return pooled(self.layer(x))


def example():
    return (torch.randn(4, 2),), {}


def others():
    return [
        ((torch.randn(2, 2),), {}),
        ((torch.randn(8, 2),), {}),
    ]
