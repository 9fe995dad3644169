"""A dict of a tuple and a tensor goes in, a nested structure comes out."""

import torch
from torch import nn

OPEN = {"batch.pair.0": [0], "batch.pair.1": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, batch):
        left, right = batch["pair"]
        return left + right, (self.layer(left), [self.layer(right), right.sum()])


def example():
    return ({"pair": (torch.randn(2, 3), torch.randn(2, 3))},), {}


def others():
    return [
        (({"pair": (torch.randn(4, 3), torch.randn(4, 3))},), {}),
        (({"pair": (torch.randn(1, 3), torch.randn(1, 3))},), {}),
    ]
