"""The first byte of the storage is read as a list of Python's."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        return x * (1 + x.untyped_storage().tolist()[0] % 2)  # fault


def example():
    return (torch.tensor([[1, 2, 3]], dtype=torch.uint8),), {}


def others():
    return [((torch.tensor([[4, 2, 3]], dtype=torch.uint8),), {})]
