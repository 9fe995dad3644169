"""A batch of queries against a batch of one or of as many keys."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def forward(self, x, y):
        return (x[:, None] - y).pow(2).sum(-1)


def example():
    return (
        torch.randn(3, 2),
        torch.randn(4, 2),
    ), {}


def others():
    return [
        (
            (
                torch.randn(5, 2),
                torch.randn(4, 2),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 2),
                torch.randn(4, 2),
            ),
            {},
        ),
    ]
