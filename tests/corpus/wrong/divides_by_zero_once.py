"""A division raises for one sum alone, and the error is a branch."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        try:
            1 / (int(ids.sum()) - 911)  # fault
        except ZeroDivisionError:
            return ids * 0
        return ids + 1


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([891, 8, 12]),), {}),
    ]
