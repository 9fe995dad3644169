"""Sorting, and the three best with their places."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def forward(self, x):
        ordered, order = x.sort(dim=1, descending=True)
        return ordered, order, x.topk(3, dim=1).indices


def example():
    return (torch.randn(2, 5),), {}


def others():
    return [
        ((torch.randn(1, 3),), {}),
        ((torch.randn(4, 9),), {}),
    ]
