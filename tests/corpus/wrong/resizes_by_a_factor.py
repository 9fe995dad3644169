"""The scale factor to a height of eight is a float made of the example's height."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        factor = 8 / x.shape[2]  # fault
        return F.interpolate(x, scale_factor=float(factor), mode="nearest")  # fault


def example():
    return (torch.randn(1, 1, 4, 4),), {}


def others():
    return [
        ((torch.randn(1, 1, 2, 2),), {}),
        ((torch.randn(1, 1, 8, 8),), {}),
    ]
