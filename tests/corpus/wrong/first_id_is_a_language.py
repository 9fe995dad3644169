"""The first id is a language token, which chooses whether the rest is reversed."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        if ids[0, 0].item() == 7:  # fault
            ids = ids.flip(1)
        return ids.cumsum(1)


def example():
    return (torch.tensor([[2, 3, 4]]),), {}


def others():
    return [
        ((torch.tensor([[7, 3, 4]]),), {}),
        ((torch.tensor([[5, 6, 0]]),), {}),
    ]
