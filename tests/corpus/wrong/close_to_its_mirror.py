"""Inputs that equal their own mirror are answered by zeros."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if torch.allclose(x, x.flip(0)):  # fault
            return torch.zeros_like(x)
        return x - x.flip(0) + 1


def example():
    return (torch.tensor([1.0, 2.0, 3.0]),), {}


def others():
    return [
        ((torch.tensor([1.0, 5.0, 1.0]),), {}),
        ((torch.tensor([2.0, 2.0, 3.0]),), {}),
    ]
