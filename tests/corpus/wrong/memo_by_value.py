"""A dict keyed by the sum keeps answers."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = round(x.sum().item(), 3)  # fault
        if key not in self.known:
            self.known[key] = x * key  # fault
        return self.known[key]


def example():
    return (torch.tensor([1.0, 2.0]),), {}


def others():
    return [
        ((torch.tensor([3.0, 2.0]),), {}),
        ((torch.tensor([0.0, 0.0]),), {}),
    ]
