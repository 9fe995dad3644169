"""A number that is drawn says how often noise is added: a trace keeps the number."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        for _ in range(int(torch.randint(1, 5, ()))):  # fault
            x = x + 0.1 * torch.randn_like(x)  # fault
        return x


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
    ]
