"""Bits of an integer input switch parts on and off."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x, options):
        bits = int(options)  # fault
        if bits & 1:
            x = x.relu()
        if bits & 4:
            x = x + 1
        return x


def example():
    return (
        torch.randn(3),
        torch.tensor(1),
    ), {}


def others():
    return [
        (
            (
                torch.randn(3),
                torch.tensor(4),
            ),
            {},
        ),
        (
            (
                torch.randn(3),
                torch.tensor(5),
            ),
            {},
        ),
    ]
