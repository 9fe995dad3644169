"""The steps are unbound and stacked again in reverse, the example's number of them."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        steps = torch.unbind(x, 1)  # fault
        return torch.stack(steps[::-1], 1)  # fault


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(2, 6),), {}),
        ((torch.randn(2, 2),), {}),
    ]
