"""A division raises at one size alone, and the error is a branch."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        try:
            1 / (x.shape[1] - 37)  # fault
        except ZeroDivisionError:
            return -x
        return x


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(2, 37),), {}), ((torch.randn(3, 5),), {})]
