"""More than sixteen tokens are refused with an error of its own."""

import torch
from torch import nn

OPEN = {"ids": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(9, 4)
        self.places = nn.Embedding(16, 4)

    def forward(self, ids):
        length = ids.shape[1]
        if length > 16:
            raise ValueError(f"{length} tokens are more than 16")
        return self.tokens(ids) + self.places(torch.arange(length))


def example():
    return (torch.randint(0, 9, (2, 5)),), {}


def others():
    return [
        ((torch.randint(0, 9, (1, 16)),), {}),
        ((torch.randint(0, 9, (3, 1)),), {}),
    ]
