"""An identity matrix is made at the example's size, and added to matrices of another."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        size = int(x.shape[-1])  # fault
        return torch.linalg.inv(x @ x.transpose(-1, -2) + torch.eye(size))  # fault


def example():
    return (torch.randn(3, 3),), {}


def others():
    return [
        ((torch.randn(5, 5),), {}),
        ((torch.randn(1, 1),), {}),
    ]
