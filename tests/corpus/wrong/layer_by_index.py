"""A tensor indexes a list of Python."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gains = [1.0, 2.0, 4.0]

    def forward(self, x, level):
        return x * self.gains[level]  # fault


def example():
    return (
        torch.randn(2),
        torch.tensor(0),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2),
                torch.tensor(2),
            ),
            {},
        ),
        (
            (
                torch.randn(2),
                torch.tensor(1),
            ),
            {},
        ),
    ]
