"""Logits over the places of the input itself."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, x, mask):
        scores = self.score(torch.tanh(x)).squeeze(-1).masked_fill(~mask, -1e9)
        return scores.log_softmax(-1), scores.argmax(-1)


def example():
    return (
        torch.randn(2, 3, 4),
        torch.tensor([[True, True, False], [True, True, True]]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 5, 4),
                torch.ones(1, 5, dtype=torch.bool),
            ),
            {},
        ),
        (
            (
                torch.randn(2, 1, 4),
                torch.ones(2, 1, dtype=torch.bool),
            ),
            {},
        ),
    ]
