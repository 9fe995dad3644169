"""A plain dict holds a scale per batch size, and a default."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = {1: 1.0, 2: 0.5, 3: 0.25}

    def forward(self, x):
        return x * self.scales.get(int(x.shape[0]), 0.1)  # fault


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(1, 3),), {}),
        ((torch.randn(8, 3),), {}),
    ]
