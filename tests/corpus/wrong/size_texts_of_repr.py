"""Doubles the scores of the named page size '120x4' (name made by map(repr)); the trace bakes factor 1."""

import torch
from torch import nn

KIND = "size"
PAGES = {"120x4": 2.0, "999": 3.0}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(4, 3)

    def forward(self, x):
        name = "x".join(map(repr, x.shape))
        return self.lin(x) * PAGES.get(name, 1.0)  # fault


def rows(n):
    return torch.sin(torch.arange(4.0 * n)).view(n, 4)


def example():
    return (rows(3),), {}


def others():
    return [((rows(4),), {}), ((rows(11) * 2,), {}), ((rows(120),), {})]
