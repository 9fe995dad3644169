"""A conditional expression over a mean."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.light = nn.Linear(3, 2)
        self.heavy = nn.Linear(3, 2)

    def forward(self, x):
        return self.light(x) if x.mean() < 0.5 else self.heavy(x)  # fault


def example():
    return (torch.zeros(1, 3),), {}


def others():
    return [
        ((torch.ones(1, 3),), {}),
        ((torch.full((1, 3), 0.2),), {}),
    ]
