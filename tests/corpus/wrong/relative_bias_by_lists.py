"""A table of distances is a nested list over the example's places."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(9))

    def forward(self, x):
        length = x.shape[0]
        index = torch.tensor([[min(abs(i - j), 8) for j in range(length)] for i in range(length)])  # fault
        return (x @ x.T + self.bias[index]).softmax(-1)  # fault


def example():
    return (torch.randn(3, 2),), {}


def others():
    return [
        ((torch.randn(4, 2),), {}),
        ((torch.randn(2, 2),), {}),
    ]
