"""The table of sinusoids is computed for the length at hand."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rates", 1 / 100 ** (torch.arange(0, 6, 2) / 6))

    def forward(self, x):
        angles = torch.arange(x.size(1))[:, None] * self.rates
        return x + torch.cat([angles.sin(), angles.cos()], -1)


def example():
    return (torch.randn(2, 4, 6),), {}


def others():
    return [
        ((torch.randn(1, 9, 6),), {}),
        ((torch.randn(2, 1, 6),), {}),
    ]
