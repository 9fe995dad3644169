"""A preallocated array shares memory with a tensor, and is filled by numpy."""

import numpy as np
import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        shared = np.zeros(3, dtype=np.float32)
        shown = torch.from_numpy(shared)
        shared[:] = x.numpy() * 2  # fault
        return shown + 1  # fault


def example():
    return (torch.randn(3),), {}


def others():
    return [
        ((torch.randn(3),), {}),
    ]
