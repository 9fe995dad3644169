"""Equal shapes of two inputs are added, others are broadcast by hand."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x, bias):
        if x.shape == bias.shape:  # fault
            return x + bias
        return x * bias.mean()


def example():
    return (
        torch.randn(2, 3),
        torch.randn(2, 3),
    ), {}


def others():
    return [
        (
            (
                torch.randn(4, 3),
                torch.randn(1, 3),
            ),
            {},
        ),
        (
            (
                torch.randn(2, 3),
                torch.randn(1, 3),
            ),
            {},
        ),
    ]
