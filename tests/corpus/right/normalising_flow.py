"""Affine coupling layers and the sum of their logarithms."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(nn.Linear(2, 4) for _ in range(3))

    def forward(self, x):
        log_det = x.new_zeros(x.shape[0])
        for net in self.nets:
            kept, changed = x.chunk(2, 1)
            scale, shift = net(kept).chunk(2, 1)
            changed = changed * torch.tanh(scale).exp() + shift
            log_det = log_det + torch.tanh(scale).sum(1)
            x = torch.cat([changed, kept], 1)
        return x, log_det


def example():
    return (torch.randn(3, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(8, 4),), {}),
    ]
