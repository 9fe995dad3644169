"""Half precision comes in, and is widened."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x.float()).half()


def example():
    return (torch.randn(2, 4).half(),), {}


def others():
    return [
        ((torch.randn(1, 4).half(),), {}),
        ((torch.randn(7, 4).half(),), {}),
    ]
