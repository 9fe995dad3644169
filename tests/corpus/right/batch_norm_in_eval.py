"""Batch norm with running statistics that are not those it was made with."""

import torch
from torch import nn

OPEN = {"x": [0, 2]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.norm(x)


def example():
    return (torch.randn(2, 3, 5),), {}


def others():
    return [
        ((torch.randn(1, 3, 1),), {}),
        ((torch.randn(4, 3, 8),), {}),
    ]
