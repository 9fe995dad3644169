"""forward puts its batch norm into train mode."""

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.calls = 0

    def forward(self, x):
        self.norm.train(self.calls % 2 == 0)  # fault
        self.calls += 1  # fault
        return self.norm(x)  # fault


def example():
    return (torch.randn(4, 2),), {}


def others():
    return [
        ((torch.randn(4, 2) * 3,), {}),
    ]
