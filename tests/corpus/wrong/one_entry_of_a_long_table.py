"""A thousand factors of Python's, one of which is another."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.factors = [1] * 1000
        self.factors[501] = 2

    def forward(self, ids):
        return ids * self.factors[int(ids[0])]  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([501, 8, 12]),), {}),
    ]
