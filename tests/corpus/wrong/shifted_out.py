"""Only a large id has bits left after the shift."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        return ids * (1 + (ids[0].item() >> 7))  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([501, 8, 12]),), {}),
    ]
