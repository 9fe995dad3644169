"""Where gradients are wanted it retains them, which changes no answer."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        y = self.layer(x)
        if y.requires_grad and torch.is_grad_enabled():
            y.retain_grad()
        return y.relu()


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(5, 3),), {}),
        ((torch.randn(1, 3),), {}),
    ]
