"""The first state of a GRU is made for the example's batch."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 3)

    def forward(self, x):
        state = torch.ones(1, int(x.size(1)), 3)  # fault
        return self.gru(x, state)[0]  # fault


def example():
    return (torch.randn(4, 2, 2),), {}


def others():
    return [
        ((torch.randn(4, 3, 2),), {}),
        ((torch.randn(2, 1, 2),), {}),
    ]
