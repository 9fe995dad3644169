"""Odd lengths are refused by eager: the contract may say so."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def forward(self, x):
        if int(x.shape[1]) % 2:
            raise ValueError("the length is odd")
        return x.unflatten(1, (-1, 2)).sum(-1)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(3, 6),), {}),
        ((torch.randn(1, 8),), {}),
    ]
