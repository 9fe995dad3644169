"""Complex arithmetic between real ends."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("turn", torch.polar(torch.ones(2), torch.tensor([0.3, 1.2])))

    def forward(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], 2, 2).contiguous())
        return torch.view_as_real(pairs * self.turn).flatten(-2)


def example():
    return (torch.randn(2, 3, 4),), {}


def others():
    return [
        ((torch.randn(1, 5, 4),), {}),
        ((torch.randn(4, 1, 4),), {}),
    ]
