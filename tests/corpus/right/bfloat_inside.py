"""A part computes in bfloat16 by casts of its own."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return F.linear(x.bfloat16(), self.layer.weight.bfloat16(), self.layer.bias.bfloat16()).float()


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(7, 4),), {}),
    ]
