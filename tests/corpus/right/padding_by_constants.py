"""Padding of every kind by constants."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 2]}


class Net(nn.Module):
    def forward(self, x):
        return F.pad(x, (1, 2), mode="reflect") + F.pad(x, (2, 1), mode="replicate") + F.pad(x, (0, 3), value=0.5)


def example():
    return (torch.randn(1, 2, 5),), {}


def others():
    return [
        ((torch.randn(3, 2, 9),), {}),
        ((torch.randn(1, 2, 3),), {}),
    ]
