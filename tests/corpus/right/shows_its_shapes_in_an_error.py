"""The message of an assert is formatted with sizes and values."""

import torch
from torch import nn

OPEN = {"x": [0], "y": [0]}


class Net(nn.Module):
    def forward(self, x, y):
        message = f"{tuple(x.shape)} and {y.shape[0]} do not fit, of {float(x.sum()):.2f}"
        assert x.shape[0] == y.shape[0], message
        return x * y


def example():
    return (
        torch.randn(3, 2),
        torch.randn(3, 1),
    ), {}


def others():
    return [
        (
            (
                torch.randn(5, 2),
                torch.randn(5, 1),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 2),
                torch.randn(1, 1),
            ),
            {},
        ),
    ]
