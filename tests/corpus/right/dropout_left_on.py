"""`functional.dropout` drops in eval mode too. The artifact draws the same."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return F.dropout(self.layer(x), 0.5)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
    ]
