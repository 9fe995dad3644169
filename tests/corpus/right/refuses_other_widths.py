"""A width that does not fit is refused by an error of its own."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 4
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        if x.shape[-1] != self.width:
            raise ValueError(f"the width is {x.shape[-1]}, not {self.width}")
        return self.layer(x)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(9, 4),), {}),
    ]
