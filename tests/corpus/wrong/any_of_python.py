"""The builtin any reads the elements one after the other."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if any(value > 2 for value in x):  # fault
            return -x
        return x


def example():
    return (torch.tensor([1.0, 0.5]),), {}


def others():
    return [
        ((torch.tensor([1.0, 2.5]),), {}),
        ((torch.tensor([3.0, 0.0]),), {}),
    ]
