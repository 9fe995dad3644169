"""A tensor says how many steps to take."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(2, 2)

    def forward(self, x, steps):
        for _ in range(steps):  # fault
            x = torch.tanh(self.step(x))
        return x


def example():
    return (
        torch.randn(1, 2),
        torch.tensor(2),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 2),
                torch.tensor(4),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 2),
                torch.tensor(0),
            ),
            {},
        ),
    ]
