"""Zero-dimensional tensors go in and come out."""

import torch
from torch import nn

OPEN = {}


class Net(nn.Module):
    def forward(self, a, b):
        return (a + b) / 2, torch.maximum(a, b)


def example():
    return (
        torch.tensor(1.0),
        torch.tensor(2.0),
    ), {}


def others():
    return [
        (
            (
                torch.tensor(-5.0),
                torch.tensor(7.5),
            ),
            {},
        ),
        (
            (
                torch.tensor(0.0),
                torch.tensor(0.0),
            ),
            {},
        ),
    ]
