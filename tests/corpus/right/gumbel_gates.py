"""Gates are drawn with Gumbel noise. The artifact draws the same."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def forward(self, x):
        return x * F.gumbel_softmax(x, tau=0.5)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
    ]
