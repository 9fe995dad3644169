"""Small values are computed in bfloat16, large ones are not."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(x.abs().max() < 100)):  # fault
            return self.layer(x).float()


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3) * 1000,), {}),
        ((torch.randn(2, 3),), {}),
    ]
