"""Distances to kept examples weigh their answers."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("known", torch.randn(5, 3))
        self.register_buffer("answers", torch.randn(5))

    def forward(self, x):
        return torch.cdist(x, self.known).neg().softmax(-1) @ self.answers


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(1, 3),), {}),
        ((torch.randn(8, 3),), {}),
    ]
