"""A vector that is all but zero is not normalised."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        norm = x.norm()
        if norm < 1e-6:  # fault
            return x
        return x / norm


def example():
    return (torch.randn(3),), {}


def others():
    return [
        ((torch.zeros(3),), {}),
        ((torch.full((3,), 1e-8),), {}),
    ]
