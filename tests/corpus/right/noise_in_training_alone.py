"""Noise and drop path, in train mode alone."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        if self.training:
            x = x + torch.randn_like(x)
        y = self.layer(x)
        return x + (y * torch.bernoulli(torch.tensor(0.9)) if self.training else y)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(5, 3),), {}),
        ((torch.randn(1, 3),), {}),
    ]
