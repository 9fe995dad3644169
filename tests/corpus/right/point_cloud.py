"""PointNet: the same layers at every point, and a maximum over them."""

import torch
from torch import nn

OPEN = {"points": [0, 2]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Conv1d(3, 8, 1), nn.ReLU(), nn.Conv1d(8, 8, 1))
        self.head = nn.Linear(8, 4)

    def forward(self, points):
        return self.head(self.local(points).max(2)[0])


def example():
    return (torch.randn(2, 3, 10),), {}


def others():
    return [
        ((torch.randn(1, 3, 33),), {}),
        ((torch.randn(3, 3, 1),), {}),
    ]
