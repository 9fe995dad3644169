"""Two rare conditions, of which each alone is enough."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if x.max() > 500 or x.min() < -500:  # fault
            return x.clamp(-1, 1)
        return x


def example():
    return (torch.randn(4),), {}


def others():
    return [
        ((torch.tensor([1.0, 2.0, -1000.0, 0.0]),), {}),
        ((torch.tensor([1.0, 501.0, 0.0, 0.0]),), {}),
    ]
