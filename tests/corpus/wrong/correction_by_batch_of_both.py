"""The number of pairs of two batches is a product of Python's ints."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, a, b):
        pairs = len(a) * len(b)  # fault
        return torch.cdist(a, b).sum() / pairs  # fault


def example():
    return (
        torch.randn(2, 3),
        torch.randn(4, 3),
    ), {}


def others():
    return [
        (
            (
                torch.randn(5, 3),
                torch.randn(4, 3),
            ),
            {},
        ),
        (
            (
                torch.randn(2, 3),
                torch.randn(7, 3),
            ),
            {},
        ),
    ]
