"""Dilated causal convolutions with gates and skips."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 2]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.ModuleList(nn.Conv1d(2, 4, 2, dilation=2**i) for i in range(3))
        self.mix = nn.ModuleList(nn.Conv1d(2, 2, 1) for _ in range(3))

    def forward(self, x):
        skips = 0
        for place, (layer, mix) in enumerate(zip(self.filters, self.mix)):
            gate, value = layer(F.pad(x, (2**place, 0))).chunk(2, 1)
            y = mix(torch.tanh(value) * torch.sigmoid(gate))
            skips = skips + y
            x = x + y
        return skips


def example():
    return (torch.randn(1, 2, 12),), {}


def others():
    return [
        ((torch.randn(2, 2, 30),), {}),
        ((torch.randn(1, 2, 1),), {}),
    ]
