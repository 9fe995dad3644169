"""The input is changed through numpy, which no trace sees."""

import torch
from torch import nn

KIND = "input-write"


class Net(nn.Module):
    def forward(self, x):
        y = x.sum(-1)
        x.numpy()[:, 0] = 0.0  # fault
        return y


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
    ]
