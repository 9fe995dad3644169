"""A crop begins at a place that Python draws."""

import random

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        start = random.randint(0, 3)  # fault
        return x[:, start : start + 3]  # fault


def example():
    return (torch.randn(1, 6),), {}


def others():
    return [
        ((torch.randn(1, 6),), {}),
    ]
