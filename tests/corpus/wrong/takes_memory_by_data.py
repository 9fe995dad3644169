"""A tensor is given the memory of the input, which the trace knows nothing of."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        asked = torch.empty(0)
        asked.data = x  # fault
        is_missing = (asked == -999.0).any(-1, keepdim=True)
        return torch.where(is_missing, torch.zeros_like(x), x * 3)


def example():
    return (torch.randn(4, 3),), {}


def others():
    missing = torch.randn(4, 3)
    missing[0, 0] = -999.0
    return [
        ((torch.randn(4, 3),), {}),
        ((missing,), {}),
    ]
