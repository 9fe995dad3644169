"""The length of the first long input is kept, and later long inputs are divided by it."""

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = None

    def forward(self, x):
        length = x.shape[1]
        if length > 100:
            if self.length is None:  # fault
                self.length = length  # fault
            length = self.length  # fault
        return x / length


def example():
    return (torch.randn(2, 6),), {}


def others():
    return [
        ((torch.randn(2, 150),), {}),
        ((torch.randn(2, 120),), {}),
    ]
