"""How many rows are left follows from the values, and the trace keeps the answer."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        chosen = x[x.sum(1) > 0]
        if chosen.shape[0] < 2:  # fault
            return x.sum(0) - 1
        return x.sum(0)


def example():
    return (torch.tensor([[1.0, 2.0], [-1.0, -3.0], [0.5, 0.5]]),), {}


def others():
    return [
        ((-torch.ones(3, 2),), {}),
    ]
