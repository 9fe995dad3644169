"""A recursion splits the steps down to one; its depth is the example's."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        return self.total(x)

    def total(self, x):
        if x.size(0) == 1:  # fault
            return torch.sigmoid(x[0])
        middle = x.size(0) // 2
        return self.total(x[:middle]) - self.total(x[middle:])


def example():
    return (torch.randn(4, 2),), {}


def others():
    return [
        ((torch.randn(7, 2),), {}),
        ((torch.randn(1, 2),), {}),
    ]
