"""A scripted part with lists of modules that are named alike, whose operators stand in torch's own files."""

import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.second = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        for layer in self.first:
            x = torch.relu(layer(x))
        for layer in self.second:
            x = self.dropout(layer(x))
        if bool(x.sum() > 0):
            x = x * 2
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(Inner())

    def forward(self, x):
        return self.inner(x) - 1
