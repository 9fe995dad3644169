"""Attention by kernels: sums over keys, cumulative for causality."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 12)

    def forward(self, x):
        query, key, value = self.project(x).chunk(3, -1)
        query, key = F.elu(query) + 1, F.elu(key) + 1
        state = torch.cumsum(key.unsqueeze(-1) * value.unsqueeze(-2), 1)
        norm = (query * key.cumsum(1)).sum(-1, keepdim=True)
        return (query.unsqueeze(-2) @ state).squeeze(-2) / norm


def example():
    return (torch.randn(2, 4, 4),), {}


def others():
    return [
        ((torch.randn(1, 11, 4),), {}),
        ((torch.randn(3, 1, 4),), {}),
    ]
