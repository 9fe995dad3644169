"""The normalised shape is taken from the input, and baked with its last dim."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        return F.layer_norm(x, [int(x.shape[-1])]) * x.shape[0]  # fault


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(2, 6),), {}),
        ((torch.randn(3, 3),), {}),
    ]
