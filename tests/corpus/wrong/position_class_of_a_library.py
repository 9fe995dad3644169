"""A helper class that builds positions from ints, as many libraries have one."""

import torch
from torch import nn

KIND = "size"


class Positions:
    def __init__(self, width):
        self.width = width

    def table(self, length):
        places = torch.arange(int(length), dtype=torch.float32)  # fault
        rates = 100.0 ** (-torch.arange(0, self.width, 2) / self.width)
        angles = places[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = Positions(4)
        self.project = nn.Linear(4, 4)

    def forward(self, x):
        return self.project(x) + self.positions.table(x.shape[1])  # fault


def example():
    return (torch.randn(2, 3, 4),), {}


def others():
    return [
        ((torch.randn(2, 6, 4),), {}),
        ((torch.randn(4, 2, 4),), {}),
    ]
