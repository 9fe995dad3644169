"""A fresh identifier is hashed into the answer."""

import uuid

import torch
from torch import nn

KIND = "ambient"


class Net(nn.Module):
    def forward(self, x):
        return x + uuid.uuid4().int % 2**16  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]
