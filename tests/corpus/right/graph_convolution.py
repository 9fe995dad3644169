"""Messages along edges are added up by index_add."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0], "edges": [1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        sent = self.layer(x)
        summed = torch.zeros_like(sent).index_add(0, target, sent.index_select(0, source))
        return F.relu(summed)


def example():
    return (
        torch.randn(4, 3),
        torch.tensor([[0, 1, 2], [1, 2, 3]]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(6, 3),
                torch.tensor([[0, 1, 2, 5, 4], [1, 2, 3, 0, 0]]),
            ),
            {},
        ),
        (
            (
                torch.randn(4, 3),
                torch.tensor([[0], [3]]),
            ),
            {},
        ),
    ]
