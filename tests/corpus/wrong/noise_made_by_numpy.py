"""Noise that NumPy draws is a constant of the trace."""

import numpy as np
import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        return x + torch.tensor(np.random.rand(3), dtype=torch.float32)  # fault


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
    ]
