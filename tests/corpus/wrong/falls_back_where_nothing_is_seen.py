"""Attention has a way of its own where a mask hides everything."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x, mask):
        if not mask.any():  # fault
            return x.mean(0, keepdim=True).expand_as(x)
        scores = (x @ x.T).masked_fill(~mask, float("-inf"))
        return scores.softmax(-1) @ x


def example():
    return (
        torch.randn(3, 2),
        torch.tensor([True, True, False]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(3, 2),
                torch.tensor([False, False, False]),
            ),
            {},
        ),
        (
            (
                torch.randn(3, 2),
                torch.tensor([False, True, False]),
            ),
            {},
        ),
    ]
