"""The first numbers are taken by resizing a copy in place, which the trace keeps."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        first = x.clone().resize_(2)  # fault
        return torch.where((first == -999.0).any(), torch.zeros_like(x), x * 3)


def example():
    return (torch.randn(4, 3),), {}


def others():
    missing = torch.randn(4, 3)
    missing[0, 0] = -999.0
    return [
        ((torch.randn(4, 3),), {}),
        ((missing,), {}),
    ]
