"""Keyword inputs in another order than the signature, and a default that is not given."""

import torch
from torch import nn

OPEN = {"x": [0], "shift": [0]}


class Net(nn.Module):
    def forward(self, x, scale=2.0, shift=None):
        return x * scale + (0 if shift is None else shift)


def example():
    return (), dict(shift=torch.randn(2, 3), x=torch.randn(2, 3))


def others():
    return [
        ((), dict(shift=torch.randn(4, 3), x=torch.randn(4, 3))),
        ((), dict(shift=torch.randn(1, 3), x=torch.randn(1, 3))),
    ]
