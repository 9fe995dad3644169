"""Pairs of rows are multiplied one by one: the trace knows the example's pairs."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, left, right):
        return torch.stack([torch.dot(a, b) for a, b in zip(left, right)])  # fault


def example():
    return (
        torch.randn(3, 4),
        torch.randn(3, 4),
    ), {}


def others():
    return [
        (
            (
                torch.randn(5, 4),
                torch.randn(5, 4),
            ),
            {},
        ),
        (
            (
                torch.randn(2, 4),
                torch.randn(2, 4),
            ),
            {},
        ),
    ]
