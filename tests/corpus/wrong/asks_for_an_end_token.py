"""`in` asks a tensor for one id."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        finished = 3 in ids  # fault
        return ids * 0 if finished else ids + 1


def example():
    return (torch.tensor([[5, 6, 7]]),), {}


def others():
    return [
        ((torch.tensor([[5, 3, 7]]),), {}),
        ((torch.tensor([[1, 2, 4]]),), {}),
    ]
