"""`math.exp` takes a tensor for a number."""

import math

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x, rate):
        return x * math.exp(-rate)  # fault


def example():
    return (
        torch.randn(2),
        torch.tensor(0.5),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2),
                torch.tensor(2.0),
            ),
            {},
        ),
        (
            (
                torch.randn(2),
                torch.tensor(0.0),
            ),
            {},
        ),
    ]
