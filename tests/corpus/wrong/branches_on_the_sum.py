"""The sign of a sum decides."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # fault
            return x * 2
        return x - 1


def example():
    return (torch.tensor([[1.0, 2.0]]),), {}


def others():
    return [
        ((torch.tensor([[-1.0, -2.0]]),), {}),
        ((torch.tensor([[3.0, -1.0]]),), {}),
    ]
