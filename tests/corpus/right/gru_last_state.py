"""The last hidden state of a GRU classifies."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 4, num_layers=2, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        _, last = self.gru(x)
        return self.head(last[-1])


def example():
    return (torch.randn(2, 4, 3),), {}


def others():
    return [
        ((torch.randn(3, 7, 3),), {}),
        ((torch.randn(1, 1, 3),), {}),
    ]
