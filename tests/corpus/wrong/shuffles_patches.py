"""Patches are shuffled by randperm."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        order = torch.randperm(x.shape[1])  # fault
        return x[:, order]


def example():
    return (torch.randn(1, 6, 2),), {}


def others():
    return [
        ((torch.randn(1, 6, 2),), {}),
    ]
