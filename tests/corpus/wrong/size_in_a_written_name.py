"""A table has names in which a size is written."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = {"width 37": 2.0}

    def forward(self, x):
        return x * self.scales.get(f"width {x.shape[1]}", 1.0)  # fault


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(2, 37),), {}), ((torch.randn(3, 5),), {})]
