"""Heads by view and transpose, with sizes that stay in the graph."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def example():
    return (torch.randn(2, 4, 8),), {}


def others():
    return [
        ((torch.randn(1, 9, 8),), {}),
        ((torch.randn(5, 2, 8),), {}),
    ]
