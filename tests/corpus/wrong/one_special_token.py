"""One id out of a hundred is treated apart."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 3)

    def forward(self, ids):
        if (ids == 42).any():  # fault
            return self.table(ids).amax(1)
        return self.table(ids).mean(1)


def example():
    return (torch.tensor([[1, 5, 9]]),), {}


def others():
    return [
        ((torch.tensor([[1, 42, 9]]),), {}),
        ((torch.tensor([[7, 99, 0]]),), {}),
    ]
