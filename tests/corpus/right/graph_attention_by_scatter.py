"""Softmax over the neighbours, by scatter_reduce."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0], "edges": [1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, x, edges):
        source, target = edges
        scores = F.leaky_relu(self.score(torch.cat([x[source], x[target]], -1))).squeeze(-1).exp()
        total = torch.zeros(x.size(0)).scatter_add(0, target, scores)
        weights = scores / (total[target] + 1e-9)
        return torch.zeros_like(x).index_add(0, target, weights[:, None] * x[source])


def example():
    return (
        torch.randn(3, 2),
        torch.tensor([[0, 1, 2], [1, 2, 0]]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(5, 2),
                torch.tensor([[0, 1, 2, 4], [1, 2, 0, 0]]),
            ),
            {},
        ),
        (
            (
                torch.randn(3, 2),
                torch.tensor([[0, 1], [1, 1]]),
            ),
            {},
        ),
    ]
