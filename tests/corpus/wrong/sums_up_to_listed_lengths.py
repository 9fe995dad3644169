"""Lengths become a list, and each row is summed as far as in the example."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x, lengths):
        rows = [row[:length].sum() for row, length in zip(x.unbind(), lengths.tolist())]  # fault
        return torch.stack(rows)


def example():
    return (
        torch.randn(2, 5),
        torch.tensor([2, 5]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2, 5),
                torch.tensor([4, 1]),
            ),
            {},
        ),
        (
            (
                torch.randn(2, 5),
                torch.tensor([5, 5]),
            ),
            {},
        ),
    ]
