"""A recurrent layer is given zeros of its batch's size, and each of its steps is scored."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.RNN(4, 6, 2, batch_first=True)
        self.score = nn.Linear(6, 2)

    def forward(self, x):
        zeros = torch.zeros(2, x.size(0), 6, device=x.device, dtype=x.dtype)
        states, _ = self.steps(x, zeros)
        return self.score(states)


def example():
    return (torch.randn(2, 7, 4),), {}


def others():
    return [
        ((torch.randn(1, 3, 4),), {}),
        ((torch.randn(5, 90, 4),), {}),
    ]
