"""Python's random gives a number, and the trace keeps it."""

import random

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        return x * random.random()  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]
