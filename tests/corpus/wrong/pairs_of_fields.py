"""Every pair of fields interacts: as many as the example has."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, fields):
        pairs = [fields[:, i] * fields[:, j] for i in range(fields.shape[1]) for j in range(i)]  # fault
        return sum(pairs).sum(-1)  # fault


def example():
    return (torch.randn(2, 3, 4),), {}


def others():
    return [
        ((torch.randn(2, 5, 4),), {}),
        ((torch.randn(1, 2, 4),), {}),
    ]
