"""A transpose is contiguous by chance, where one of its sizes is one."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        y = x.transpose(0, 1)
        return y * 2 if y.is_contiguous() else y  # fault


def example():
    return (torch.randn(3, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(3, 1),), {}),
    ]
