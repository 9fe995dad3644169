"""States go in as a tuple and come out as one."""

import torch
from torch import nn

OPEN = {"x": [0], "state.0": [0], "state.1": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x, state):
        hidden, cell = self.cell(x, state)
        return hidden.tanh(), (hidden, cell)


def example():
    return (
        torch.randn(2, 3),
        (torch.randn(2, 4), torch.randn(2, 4)),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 3),
                (torch.randn(1, 4), torch.randn(1, 4)),
            ),
            {},
        ),
        (
            (
                torch.randn(5, 3),
                (torch.randn(5, 4), torch.randn(5, 4)),
            ),
            {},
        ),
    ]
