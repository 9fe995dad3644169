"""Values are added up in eight bins."""

import torch
from torch import nn

OPEN = {"values": [0], "bins": [0]}


class Net(nn.Module):
    def forward(self, values, bins):
        return torch.zeros(8).scatter_add(0, bins, values)


def example():
    return (
        torch.randn(5),
        torch.tensor([0, 1, 1, 7, 3]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2),
                torch.tensor([2, 2]),
            ),
            {},
        ),
        (
            (
                torch.randn(9),
                torch.arange(9) % 8,
            ),
            {},
        ),
    ]
