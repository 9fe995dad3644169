"""A draw that nothing uses moves the generator on, and TorchScript leaves it out."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        torch.rand(3)  # fault
        return x + torch.randn_like(x)  # fault


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
    ]
