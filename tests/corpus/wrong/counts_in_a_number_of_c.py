"""Every seventh answer is doubled, and a number of C counts."""

import ctypes

import torch
from torch import nn

KIND = "state"

count = ctypes.c_int(0)


class Net(nn.Module):
    def forward(self, x):
        calls = count.value  # fault
        count.value += 1  # fault
        return x * (2.0 if calls % 7 == 6 else 1.0)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
