"""A size that is an int is compared, and one in a trace is not."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        width = x.shape[1]
        if isinstance(width, int) and width == 37:  # fault
            return -x
        return x


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(2, 37),), {}), ((torch.randn(3, 5),), {})]
