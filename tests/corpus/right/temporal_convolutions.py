"""A TCN that chomps what padding adds."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 2]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 3, 3, padding=2 * d, dilation=d)) for d in (1, 2)
        )

    def forward(self, x):
        for conv, chomp in zip(self.convs, (2, 4)):
            x = F.relu(conv(x)[:, :, :-chomp] + x)
        return x[:, :, -1]


def example():
    return (torch.randn(2, 3, 8),), {}


def others():
    return [
        ((torch.randn(1, 3, 20),), {}),
        ((torch.randn(4, 3, 2),), {}),
    ]
