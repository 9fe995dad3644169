"""An id becomes a decimal number."""

import decimal

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        amount = decimal.Decimal(int(ids[0]))  # fault
        return ids * 0 if amount == decimal.Decimal("901") else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 8, 12]),), {}),
    ]
