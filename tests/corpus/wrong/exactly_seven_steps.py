"""One single length takes another way."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        if x.shape[1] == 7:  # fault
            return x.mean(1)
        return x.sum(1)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(2, 7),), {}),
        ((torch.randn(2, 6),), {}),
    ]
