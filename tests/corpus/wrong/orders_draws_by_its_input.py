"""The sign of the input says which of two draws comes first: a trace keeps one order."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # fault
            scale, shift = torch.rand(3), torch.randn(3)
        else:
            shift, scale = torch.randn(3), torch.rand(3)
        return x * scale + shift


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
    ]
