"""A smoothing block in the middle keeps an average between calls."""

import torch
from torch import nn

KIND = "state"


class Smooth(nn.Module):
    def __init__(self):
        super().__init__()
        self.average = torch.zeros(2)

    def forward(self, x):
        self.average = 0.5 * self.average + 0.5 * x.detach().mean(0)  # fault
        return x + self.average  # fault


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), Smooth()), nn.Linear(2, 1))

    def forward(self, x):
        return self.body(x)


def example():
    return (torch.randn(3, 2),), {}


def others():
    return [
        ((torch.randn(3, 2),), {}),
    ]
