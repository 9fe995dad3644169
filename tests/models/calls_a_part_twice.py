"""Parts in lists; one of them is called twice, and another method calls one of them, too."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        return self.parts(x) + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = self.layers[0](x)
        return self.head(x) * torch.tensor([0.5, 2.0])

    def encode(self, x):
        return self.layers[1](x)
