"""Users and items of different numbers, every pair scored."""

import torch
from torch import nn

OPEN = {"users": [0], "items": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Linear(3, 4)
        self.item = nn.Linear(5, 4)

    def forward(self, users, items):
        return self.user(users) @ self.item(items).T


def example():
    return (
        torch.randn(2, 3),
        torch.randn(4, 5),
    ), {}


def others():
    return [
        (
            (
                torch.randn(6, 3),
                torch.randn(1, 5),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 3),
                torch.randn(9, 5),
            ),
            {},
        ),
    ]
