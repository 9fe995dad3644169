"""The number of positive values is read, and divides."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        count = len(torch.nonzero(x > 0))  # fault
        return x.clamp(min=0).sum() / (count + 1)  # fault


def example():
    return (torch.tensor([1.0, -1.0, 2.0]),), {}


def others():
    return [
        ((torch.tensor([1.0, 1.0, 2.0]),), {}),
        ((torch.tensor([-1.0, -1.0, 2.0]),), {}),
    ]
