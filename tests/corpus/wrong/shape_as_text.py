"""A shape is shown, and what is shown is compared."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        return -x if f"{[*x.shape]}".endswith("37]") else x  # fault


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(2, 37),), {}), ((torch.randn(3, 5),), {})]
