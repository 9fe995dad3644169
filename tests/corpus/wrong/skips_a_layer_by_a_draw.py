"""A layer is left out by chance, which Python decides: a trace keeps one side."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        if torch.rand(()) < 0.5:  # fault
            return x
        return self.layer(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
    ]
