"""EmbeddingBag over one flat list of ids with offsets."""

import torch
from torch import nn

OPEN = {"ids": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 4, mode="sum")

    def forward(self, ids, offsets):
        return self.bag(ids, offsets)


def example():
    return (
        torch.tensor([1, 2, 3, 4, 5]),
        torch.tensor([0, 2]),
    ), {}


def others():
    return [
        (
            (
                torch.tensor([1, 2, 3, 4, 5, 19, 7]),
                torch.tensor([0, 6]),
            ),
            {},
        ),
        (
            (
                torch.tensor([1, 2]),
                torch.tensor([0, 1]),
            ),
            {},
        ),
    ]
