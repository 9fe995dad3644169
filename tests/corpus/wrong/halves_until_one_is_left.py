"""Pairs are added until one is left: as many rounds as the example needs."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        while x.shape[1] > 1:  # fault
            x = torch.tanh(x[:, 0::2] + x[:, 1::2])
        return x


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(2, 16),), {}),
        ((torch.randn(2, 8),), {}),
    ]
