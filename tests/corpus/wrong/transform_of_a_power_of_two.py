"""The transform's length is the next power of two, found with Python's bits."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        length = 1 << (int(x.shape[-1]) - 1).bit_length()  # fault
        return torch.fft.rfft(x, n=length).abs()  # fault


def example():
    return (torch.randn(2, 6),), {}


def others():
    return [
        ((torch.randn(2, 12),), {}),
        ((torch.randn(2, 3),), {}),
    ]
