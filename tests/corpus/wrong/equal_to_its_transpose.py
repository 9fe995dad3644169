"""A matrix that equals its transpose exactly is answered by its diagonal alone."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if torch.equal(x, x.mT):  # fault
            return x * torch.eye(x.shape[0])
        return x


def example():
    return (torch.randn(3, 3),), {}


def others():
    return [
        ((torch.ones(3, 3),), {}),
        ((torch.eye(3) + 1,), {}),
    ]
