"""Sorted inputs are searched, others are compared with everything."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, table, x):
        if (table[1:] >= table[:-1]).all():  # fault
            return torch.searchsorted(table, x)
        return (table[None] < x[:, None]).sum(1) * 2


def example():
    return (
        torch.tensor([1.0, 2.0, 3.0]),
        torch.tensor([1.5]),
    ), {}


def others():
    return [
        (
            (
                torch.tensor([3.0, 2.0, 1.0]),
                torch.tensor([2.5]),
            ),
            {},
        ),
        (
            (
                torch.tensor([1.0, 2.0, 5.0]),
                torch.tensor([4.5]),
            ),
            {},
        ),
    ]
