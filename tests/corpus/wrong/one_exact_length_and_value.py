"""Only where the length is four and the first value is zero."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if x.shape[0] == 4 and x[0] == 0:  # fault
            return x + 100
        return x


def example():
    return (torch.tensor([1.0, 2.0, 3.0, 4.0]),), {}


def others():
    return [
        ((torch.tensor([0.0, 2.0, 3.0, 4.0]),), {}),
    ]
