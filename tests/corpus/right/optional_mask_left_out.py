"""An optional mask that is not given."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, mask=None):
        scores = self.layer(x) @ x.transpose(1, 2)
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        return scores.softmax(-1) @ x


def example():
    return (torch.randn(2, 3, 4),), {}


def others():
    return [
        ((torch.randn(1, 6, 4),), {}),
        ((torch.randn(2, 1, 4),), {}),
    ]
