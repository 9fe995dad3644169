"""The missing steps are counted in Python, where `%` of an int leaves the graph."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        missing = -int(x.shape[-1]) % 4  # fault
        padded = F.pad(x, (0, missing))  # fault
        return padded.reshape(x.shape[0], -1, 4).sum(-1)


def example():
    return (torch.randn(2, 6),), {}


def others():
    return [
        ((torch.randn(2, 5),), {}),
        ((torch.randn(2, 8),), {}),
    ]
