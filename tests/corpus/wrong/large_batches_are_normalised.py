"""Above sixteen rows the batch is centred, below it is not."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        if len(x) > 16:  # fault
            x = x - x.mean(0)
        return torch.tanh(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(17, 3),), {}),
        ((torch.randn(16, 3),), {}),
    ]
