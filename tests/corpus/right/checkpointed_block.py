"""A block under torch.utils.checkpoint."""

import torch
from torch import nn

OPEN = {"x": [0]}


from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x):
        return x + checkpoint(self.block, x, use_reentrant=False)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(7, 4),), {}),
    ]
