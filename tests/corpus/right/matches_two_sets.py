"""How well each of some descriptors matches each of others: the example has as many of both."""

import torch
from torch import nn

OPEN = {"first": [0], "second": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 8)

    def forward(self, first, second):
        match = self.project(first) @ self.project(second).t()
        return match.softmax(0) * match.softmax(1)


def example():
    return (torch.randn(3, 8), torch.randn(3, 8)), {}


def others():
    return [((torch.randn(a, 8), torch.randn(b, 8)), {}) for a, b in ((1, 5), (7, 2), (100, 20), (1, 1))]
