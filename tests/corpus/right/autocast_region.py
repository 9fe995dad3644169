"""A region under autocast on the CPU."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
        return y.float()


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(9, 4),), {}),
    ]
