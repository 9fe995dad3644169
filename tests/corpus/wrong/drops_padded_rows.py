"""Only the valid rows are kept: as many as in the example."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x, valid):
        count = valid.sum().item()  # fault
        return x[:count].mean(0)  # fault


def example():
    return (
        torch.randn(4, 2),
        torch.tensor([True, True, False, False]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(4, 2),
                torch.tensor([True, True, True, False]),
            ),
            {},
        ),
        (
            (
                torch.randn(4, 2),
                torch.tensor([True, False, False, False]),
            ),
            {},
        ),
    ]
