"""A number of rows is counted up in place, and the number before it is used, too: in the trace they are one tensor."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        rows = x.shape[0] * 1
        padded = rows
        padded += x.shape[1] - 4  # fault
        return torch.cat([x, x.new_zeros(padded - rows, x.shape[1])])


def example():
    return (torch.randn(3, 4),), {}


def others():
    return [((torch.randn(3, 6),), {}), ((torch.randn(5, 5),), {})]
