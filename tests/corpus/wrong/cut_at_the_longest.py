"""The longest of the lengths cuts the batch."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x, lengths):
        longest = int(lengths.max())  # fault
        return x[:, :longest].flip(1)  # fault


def example():
    return (
        torch.randn(2, 6),
        torch.tensor([3, 4]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2, 6),
                torch.tensor([6, 2]),
            ),
            {},
        ),
        (
            (
                torch.randn(2, 6),
                torch.tensor([1, 1]),
            ),
            {},
        ),
    ]
