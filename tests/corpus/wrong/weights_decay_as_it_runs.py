"""A parameter's attribute is replaced by a smaller one at each call."""

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.ones(2)

    def forward(self, x):
        y = x * self.gain  # fault
        self.gain = self.gain * 0.5  # fault
        return y


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]
