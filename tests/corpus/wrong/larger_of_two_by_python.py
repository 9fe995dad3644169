"""Python's max keeps one of two tensors for good."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, a, b):
        return max(a.sum(), b.sum()) * 2  # fault


def example():
    return (
        torch.tensor([3.0, 1.0]),
        torch.tensor([1.0, 1.0]),
    ), {}


def others():
    return [
        (
            (
                torch.tensor([1.0, 1.0]),
                torch.tensor([4.0, 1.0]),
            ),
            {},
        ),
        (
            (
                torch.tensor([2.0, 1.0]),
                torch.tensor([1.0, 1.0]),
            ),
            {},
        ),
    ]
