"""Two inputs through one tower, and their similarity."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"left": [0], "right": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))

    def forward(self, left, right):
        a, b = F.normalize(self.tower(left), dim=-1), F.normalize(self.tower(right), dim=-1)
        return (a * b).sum(-1)


def example():
    return (
        torch.randn(2, 4),
        torch.randn(2, 4),
    ), {}


def others():
    return [
        (
            (
                torch.randn(5, 4),
                torch.randn(5, 4),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 4),
                torch.randn(1, 4),
            ),
            {},
        ),
    ]
