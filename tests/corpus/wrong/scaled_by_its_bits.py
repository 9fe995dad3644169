"""The number of bits of the first id is a factor."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        bits = int(ids[0]).bit_length()  # fault
        return ids * (2 if bits == 11 else 1)  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([1500, 8, 12]),), {}),
        ((torch.tensor([2000, 8, 12]),), {}),
    ]
