"""A triangular mask comes from numpy."""

import numpy as np
import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        mask = torch.from_numpy(np.tri(int(x.shape[1]), dtype=np.float32))  # fault
        return mask @ x  # fault


def example():
    return (torch.randn(1, 3, 2),), {}


def others():
    return [
        ((torch.randn(1, 5, 2),), {}),
        ((torch.randn(2, 1, 2),), {}),
    ]
