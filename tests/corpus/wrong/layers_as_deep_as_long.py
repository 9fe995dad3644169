"""The same layer is applied as many times as there are steps."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        state = x.mean(1)
        for _ in x[0]:  # fault
            state = torch.tanh(self.layer(state))
        return state


def example():
    return (torch.randn(2, 3, 3),), {}


def others():
    return [
        ((torch.randn(2, 5, 3),), {}),
        ((torch.randn(2, 1, 3),), {}),
    ]
