"""A model that returns its own loss and predictions."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0], "labels": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x, labels):
        logits = self.head(x)
        return F.cross_entropy(logits, labels), logits.argmax(1)


def example():
    return (
        torch.randn(2, 4),
        torch.tensor([0, 2]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(5, 4),
                torch.tensor([0, 2, 1, 1, 0]),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 4),
                torch.tensor([1]),
            ),
            {},
        ),
    ]
