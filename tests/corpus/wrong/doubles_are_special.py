"""Doubles take a precise way."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if x.dtype == torch.float64:  # fault
            return x.log1p().expm1()
        return x * 0.999


def example():
    return (torch.rand(3),), {}


def others():
    return [
        ((torch.rand(3, dtype=torch.float64),), {}),
    ]
