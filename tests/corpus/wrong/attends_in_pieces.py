"""Pieces of four queries attend one after the other; a longer input has more pieces than were recorded."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, q, k):
        done = []
        for piece in q.split(4, dim=1):  # fault
            done.append(torch.softmax(piece @ k.transpose(1, 2), -1) @ k)
        return torch.cat(done, 1)  # fault


def example():
    return (
        torch.randn(1, 8, 4),
        torch.randn(1, 5, 4),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 11, 4),
                torch.randn(1, 5, 4),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 3, 4),
                torch.randn(1, 5, 4),
            ),
            {},
        ),
    ]
