"""The largest value is read at every length, and written and compared only at lengths from 5 on."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        top = x.max().item()  # fault
        if x.shape[1] > 4 and f"{top:.0f}" == "9":  # fault
            return x * 2
        return x


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.full((2, length), 9.0),), {}) for length in (4, 5, 8, 16)]
