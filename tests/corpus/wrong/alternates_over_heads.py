"""Calls take turns between two heads."""

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.turn = 0

    def forward(self, x):
        head = self.heads[self.turn]  # fault
        self.turn = 1 - self.turn  # fault
        return head(x)  # fault


def example():
    return (torch.randn(1, 2),), {}


def others():
    return [
        ((torch.randn(1, 2),), {}),
    ]
