"""A complex number of Python rotates everything as it did the example."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x, angle):
        turn = complex(torch.polar(torch.ones(()), angle))  # fault
        return torch.view_as_real(x.to(torch.complex64) * turn)  # fault


def example():
    return (
        torch.randn(2),
        torch.tensor(0.5),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2),
                torch.tensor(1.5),
            ),
            {},
        ),
        (
            (
                torch.randn(2),
                torch.tensor(-1.0),
            ),
            {},
        ),
    ]
