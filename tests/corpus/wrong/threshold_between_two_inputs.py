"""Two scalars are compared by Python, inside a block of a block."""

import torch
from torch import nn

KIND = "value"


class Choose(nn.Module):
    def forward(self, x, gate):
        return x if float(gate) > 0.99 else x.tanh()  # fault


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleDict({"choose": Choose()})

    def forward(self, x, gate):
        return self.inner["choose"](x * 2, gate)


def example():
    return (
        torch.randn(3),
        torch.tensor(0.2),
    ), {}


def others():
    return [
        (
            (
                torch.randn(3),
                torch.tensor(1.0),
            ),
            {},
        ),
        (
            (
                torch.randn(3),
                torch.tensor(0.5),
            ),
            {},
        ),
    ]
