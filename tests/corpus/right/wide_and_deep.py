"""Sparse ids and dense features, a wide and a deep side."""

import torch
from torch import nn

OPEN = {"ids": [0], "dense": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = nn.Embedding(50, 1)
        self.deep = nn.Embedding(50, 4)
        self.mlp = nn.Sequential(nn.Linear(3 * 4 + 2, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, ids, dense):
        wide = self.wide(ids).sum(1)
        deep = self.mlp(torch.cat([self.deep(ids).flatten(1), dense], 1))
        return torch.sigmoid(wide + deep).squeeze(1)


def example():
    return (
        torch.randint(0, 50, (2, 3)),
        torch.randn(2, 2),
    ), {}


def others():
    return [
        (
            (
                torch.randint(0, 50, (5, 3)),
                torch.randn(5, 2),
            ),
            {},
        ),
        (
            (
                torch.randint(0, 50, (1, 3)),
                torch.randn(1, 2),
            ),
            {},
        ),
    ]
