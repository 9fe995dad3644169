"""Upsampling adds a row where the wanted size is odd: `output_padding` is the example's."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 1, 2))

    def forward(self, x, skip):
        extra = int(skip.shape[2]) - 2 * int(x.shape[2])  # fault
        return F.conv_transpose1d(x, self.weight, stride=2, output_padding=extra) + skip  # fault


def example():
    return (
        torch.randn(1, 1, 3),
        torch.randn(1, 1, 6),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 1, 3),
                torch.randn(1, 1, 7),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 1, 2),
                torch.randn(1, 1, 5),
            ),
            {},
        ),
    ]
