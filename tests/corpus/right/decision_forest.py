"""A soft tree: products of decisions along each path."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.decide = nn.Linear(4, 3)
        self.leaves = nn.Parameter(torch.randn(4, 2))

    def forward(self, x):
        left = self.decide(x).sigmoid()
        right = 1 - left
        paths = [left[:, 0] * left[:, 1], left[:, 0] * right[:, 1], right[:, 0] * left[:, 2], right[:, 0] * right[:, 2]]
        return torch.stack(paths, 1) @ self.leaves


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(8, 4),), {}),
    ]
