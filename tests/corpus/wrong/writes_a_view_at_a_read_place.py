"""A view of the input is written at a place that was read from it."""

import torch
from torch import nn

KIND = "input-write"


class Net(nn.Module):
    def forward(self, x):
        place = int(x.argmax())  # fault
        x[place] = 0  # fault
        return x * 2


def example():
    return (torch.tensor([1.0, 3.0, 2.0]),), {}


def others():
    return [
        ((torch.tensor([5.0, 3.0, 2.0]),), {}),
    ]
