"""The model seeds torch before it draws: a trace draws without the seed."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        torch.manual_seed(1234)  # fault
        return x + torch.randn_like(x)  # fault


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
    ]
