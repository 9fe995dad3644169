"""torch._check and torch._assert, as newer code writes them."""

import torch
from torch import nn

OPEN = {"a": [0, 1], "b": [0, 1]}


class Net(nn.Module):
    def forward(self, a, b):
        torch._assert(a.shape[0] == b.shape[0], "the batches differ")
        return torch.cat([a, b], 1).cumsum(1)


def example():
    return (
        torch.randn(2, 3),
        torch.randn(2, 2),
    ), {}


def others():
    return [
        (
            (
                torch.randn(4, 1),
                torch.randn(4, 5),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 7),
                torch.randn(1, 1),
            ),
            {},
        ),
    ]
