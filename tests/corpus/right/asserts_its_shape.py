"""An assert on the shapes, which no legitimate input fails."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        assert x.dim() == 2 and x.shape[1] == 4, f"expected (n, 4), got {tuple(x.shape)}"
        return self.layer(x)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(30, 4),), {}),
    ]
