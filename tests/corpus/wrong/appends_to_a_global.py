"""A list of the module grows with each call."""

import torch
from torch import nn

KIND = "state"


SEEN = []


class Net(nn.Module):
    def forward(self, x):
        SEEN.append(x.sum())  # fault
        return x + len(SEEN)  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]
