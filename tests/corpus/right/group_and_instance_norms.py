"""Norms over groups, instances and roots of mean squares."""

import torch
from torch import nn

OPEN = {"x": [0, 2]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.group = nn.GroupNorm(2, 4)
        self.gain = nn.Parameter(torch.ones(4, 1))

    def forward(self, x):
        x = self.group(x)
        return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * self.gain


def example():
    return (torch.randn(2, 4, 5),), {}


def others():
    return [
        ((torch.randn(1, 4, 9),), {}),
        ((torch.randn(3, 4, 2),), {}),
    ]
