"""Every seventh answer is doubled, and an attribute of another module counts."""

import math

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def forward(self, x):
        calls = getattr(math, "calls_of_the_corpus", 0)
        math.calls_of_the_corpus = calls + 1  # fault
        return x * (2.0 if calls % 7 == 6 else 1.0)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
