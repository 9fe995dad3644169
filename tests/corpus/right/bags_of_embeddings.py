"""EmbeddingBag over rows of ids."""

import torch
from torch import nn

OPEN = {"ids": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 4, mode="mean")
        self.head = nn.Linear(4, 2)

    def forward(self, ids):
        return self.head(self.bag(ids))


def example():
    return (torch.randint(0, 20, (2, 5)),), {}


def others():
    return [
        ((torch.randint(0, 20, (1, 2)),), {}),
        ((torch.randint(0, 20, (6, 9)),), {}),
    ]
