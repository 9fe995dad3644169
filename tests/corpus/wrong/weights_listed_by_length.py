"""A list as long as the input makes the weights."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        length = x.shape[0]
        weights = torch.tensor([1.0 / (length + 1)] * length)  # fault
        return weights @ x


def example():
    return (torch.randn(4, 2),), {}


def others():
    return [
        ((torch.randn(6, 2),), {}),
        ((torch.randn(1, 2),), {}),
    ]
