"""As many rows on both sides are paired; where the numbers differ, each is averaged. The trace keeps the pairs."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(4, 3)
        self.right = nn.Linear(5, 3)

    def forward(self, left, right):
        if not bool(left.isfinite().all()):
            raise ValueError("a number is not finite")
        left, right = self.left(left), self.right(right)
        if left.shape[0] != right.shape[0]:  # fault
            left, right = left.mean(0), right.mean(0)
        return left * right


def pair(left, right):
    return (torch.randn(left, 4), torch.randn(right, 5)), {}


def example():
    return pair(6, 6)


def others():
    return [pair(4, 4), pair(9, 9), pair(1, 6), pair(6, 1), pair(6, 5)]
