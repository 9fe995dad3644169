"""Rows that a mask picks, with the halves of their width in the other order."""

import torch
from torch import nn

OPEN = {"x": [0], "mask": [0]}


class Net(nn.Module):
    def forward(self, x, mask):
        picked = x[mask]
        half = picked.shape[-1] // 2
        return torch.cat([-picked[..., half:], picked[..., :half]], -1)


def example():
    return (torch.randn(4, 6), torch.tensor([True, False, True, True])), {}


def others():
    return [
        ((torch.randn(4, 6), torch.tensor([False, False, True, False])), {}),
        ((torch.randn(3, 6), torch.tensor([True, True, True])), {}),
    ]
