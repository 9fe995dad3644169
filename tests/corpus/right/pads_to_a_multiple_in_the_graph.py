"""The missing steps are computed with sizes that stay in the graph."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def forward(self, x):
        missing = (4 - x.shape[1] % 4) % 4
        return F.pad(x, (0, missing)).reshape(x.shape[0], -1, 4).sum(-1)


def example():
    return (torch.randn(2, 6),), {}


def others():
    return [
        ((torch.randn(1, 8),), {}),
        ((torch.randn(3, 1),), {}),
    ]
