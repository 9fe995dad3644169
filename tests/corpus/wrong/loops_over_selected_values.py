"""The selected values are folded one by one."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        total = torch.zeros(())
        for value in torch.masked_select(x, x > 0):  # fault
            total = 0.5 * total + value
        return total


def example():
    return (torch.tensor([1.0, -1.0, 2.0]),), {}


def others():
    return [
        ((torch.tensor([1.0, 1.0, 2.0]),), {}),
        ((torch.tensor([-1.0, -1.0, 2.0]),), {}),
    ]
