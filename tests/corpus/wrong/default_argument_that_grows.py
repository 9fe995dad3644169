"""A mutable default argument keeps what earlier calls put into it."""

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def remember(self, x, kept=[]):
        kept.append(x.detach())  # fault
        return sum(kept)  # fault

    def forward(self, x):
        return self.remember(x)


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]
