"""Three names take three rows; a helper adds more where there are."""

import torch
from torch import nn

KIND = "size"


def combined(first, *rest):
    for other in rest:  # fault
        first = first * 0.5 + other
    return first


class Net(nn.Module):
    def forward(self, x):
        return combined(*x)  # fault


def example():
    return (torch.randn(3, 2),), {}


def others():
    return [
        ((torch.randn(4, 2),), {}),
        ((torch.randn(1, 2),), {}),
    ]
