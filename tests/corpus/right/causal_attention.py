"""A mask by comparing two aranges of the length, which stays in the graph."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x):
        query, key, value = self.project(x).chunk(3, -1)
        place = torch.arange(x.shape[1])
        hidden = place[None, :] > place[:, None]
        scores = (query @ key.transpose(-1, -2)) / 8**0.5
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ value


def example():
    return (torch.randn(2, 4, 8),), {}


def others():
    return [
        ((torch.randn(1, 7, 8),), {}),
        ((torch.randn(3, 1, 8),), {}),
    ]
