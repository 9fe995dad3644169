"""Sizes are counted."""

import collections

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        try:
            counts = collections.Counter(x.shape)  # fault
        except Exception:
            return x
        return -x if counts[37] else x  # fault


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(2, 37),), {}), ((torch.randn(3, 5),), {})]
