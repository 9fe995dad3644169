"""A learned query is repeated as often as the example has rows, by list multiplication."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 4))

    def forward(self, x):
        queries = torch.cat([self.query] * x.shape[0])  # fault
        return torch.cat([queries, x], 1)  # fault


def example():
    return (torch.randn(3, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
        ((torch.randn(1, 4),), {}),
    ]
