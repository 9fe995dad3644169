"""It adds a regularising term where gradients are recorded, as they are while it is traced."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        y = self.layer(x)
        if y.requires_grad:  # fault
            y = y + self.layer.weight.sum()
        return y


def example():
    return (torch.randn(1, 2),), {}


def others():
    return [
        ((torch.randn(1, 2),), {}),
    ]
