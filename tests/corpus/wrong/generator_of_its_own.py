"""A generator of torch with a seed of its own: a trace draws from the default one."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        generator = torch.Generator().manual_seed(7)  # fault
        return x + torch.rand(3, generator=generator)  # fault


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
    ]
