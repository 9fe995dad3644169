"""Every seventh answer is doubled, and a bound method knows how many there were."""

import itertools

import torch
from torch import nn

KIND = "state"

next_number = itertools.count().__next__


class Net(nn.Module):
    def forward(self, x):
        calls = next_number()  # fault
        return x * (2.0 if calls % 7 == 6 else 1.0)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
