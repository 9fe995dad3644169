"""Inputs whose values are all equal leave early."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if bool((x == x[0, 0]).all()):  # fault
            return torch.zeros_like(x)
        return (x - x.mean()) / x.std()


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.full((2, 3), 1.5),), {}),
        ((torch.randn(2, 3),), {}),
    ]
