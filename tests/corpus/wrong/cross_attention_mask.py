"""The mask between queries and keys is made of ints, at the example's two lengths."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, query, key):
        rows, columns = int(query.shape[0]), int(key.shape[0])  # fault
        mask = torch.ones(rows, columns, dtype=torch.bool).triu(1 + columns - rows)  # fault
        return (query @ key.T).masked_fill(mask, float("-inf")).softmax(-1) @ key  # fault


def example():
    return (
        torch.randn(2, 4),
        torch.randn(3, 4),
    ), {}


def others():
    return [
        (
            (
                torch.randn(3, 4),
                torch.randn(3, 4),
            ),
            {},
        ),
        (
            (
                torch.randn(2, 4),
                torch.randn(6, 4),
            ),
            {},
        ),
    ]
