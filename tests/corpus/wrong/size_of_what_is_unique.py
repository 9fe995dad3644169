"""The number of different ids divides."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        different = int(torch.unique(ids).numel())  # fault
        return ids.float() / different  # fault


def example():
    return (torch.tensor([1, 2, 2]),), {}


def others():
    return [
        ((torch.tensor([1, 2, 3]),), {}),
        ((torch.tensor([5, 5, 5]),), {}),
    ]
