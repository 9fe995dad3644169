"""Every seventh answer is doubled, and memory beside Python's counts."""

import mmap

import torch
from torch import nn

KIND = "state"

memory = mmap.mmap(-1, 16)


class Net(nn.Module):
    def forward(self, x):
        calls = memory[0]  # fault
        memory[0] = (calls + 1) % 256  # fault
        return x * (2.0 if calls % 7 == 6 else 1.0)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
