"""repeat, expand, tile and repeat_interleave by constants."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def forward(self, x):
        return x.repeat(2, 1), x.unsqueeze(-1).expand(-1, -1, 3), x.repeat_interleave(2, dim=1), torch.tile(x, (1, 2))


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(1, 5),), {}),
        ((torch.randn(4, 1),), {}),
    ]
