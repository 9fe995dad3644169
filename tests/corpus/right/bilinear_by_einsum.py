"""A bilinear form with learned tensors."""

import torch
from torch import nn

OPEN = {"left": [0, 1], "right": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Parameter(torch.randn(3, 4, 2))

    def forward(self, left, right):
        return torch.einsum("bni,ijk,bmj->bknm", left, self.core, right)


def example():
    return (
        torch.randn(2, 3, 3),
        torch.randn(2, 5, 4),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 6, 3),
                torch.randn(1, 2, 4),
            ),
            {},
        ),
        (
            (
                torch.randn(4, 1, 3),
                torch.randn(4, 1, 4),
            ),
            {},
        ),
    ]
