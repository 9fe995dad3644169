"""A spiking layer draws its spikes."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        return torch.bernoulli(torch.sigmoid(x))  # fault


def example():
    return (torch.randn(4, 4),), {}


def others():
    return [
        ((torch.randn(4, 4),), {}),
    ]
