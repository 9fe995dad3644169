"""numpy draws a mask."""

import numpy as np
import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        mask = torch.from_numpy(np.random.rand(4) > 0.5)  # fault
        return x * mask


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(2, 4),), {}),
    ]
