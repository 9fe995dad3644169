"""Boolean inputs and outputs."""

import torch
from torch import nn

OPEN = {"a": [0, 1], "b": [0, 1]}


class Net(nn.Module):
    def forward(self, a, b):
        return (a & ~b) | (b ^ a), a.logical_or(b).any(1), a.sum(1)


def example():
    return (
        torch.tensor([[True, False, True]]),
        torch.tensor([[True, True, False]]),
    ), {}


def others():
    return [
        (
            (
                torch.rand(3, 5) > 0.5,
                torch.rand(3, 5) > 0.5,
            ),
            {},
        ),
        (
            (
                torch.zeros(1, 1, dtype=torch.bool),
                torch.ones(1, 1, dtype=torch.bool),
            ),
            {},
        ),
    ]
