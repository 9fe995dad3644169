"""The loop over time steps is unrolled as often as the example is long."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x):
        state = torch.zeros(x.size(0), 4)
        for step in range(x.size(1)):  # fault
            state = self.cell(x[:, step], state)
        return state


def example():
    return (torch.randn(2, 4, 3),), {}


def others():
    return [
        ((torch.randn(2, 6, 3),), {}),
        ((torch.randn(5, 4, 3),), {}),
    ]
