"""Infinities switch the activation."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if torch.isinf(x).any():  # fault
            return torch.sign(x)
        return torch.tanh(x) * 2


def example():
    return (torch.randn(3),), {}


def others():
    return [
        ((torch.tensor([1.0, float("inf"), -1.0]),), {}),
        ((torch.randn(3),), {}),
    ]
