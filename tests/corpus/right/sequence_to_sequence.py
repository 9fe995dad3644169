"""A recurrent encoder and decoder with dot attention."""

import torch
from torch import nn

OPEN = {"source": [0, 1], "target": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(3, 4, batch_first=True)
        self.decoder = nn.GRU(3, 4, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, source, target):
        memory, state = self.encoder(source)
        states, _ = self.decoder(target, state)
        seen = torch.bmm(torch.softmax(torch.bmm(states, memory.transpose(1, 2)), -1), memory)
        return self.head(torch.cat([states, seen], -1))


def example():
    return (
        torch.randn(2, 4, 3),
        torch.randn(2, 3, 3),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2, 6, 3),
                torch.randn(2, 5, 3),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 1, 3),
                torch.randn(1, 2, 3),
            ),
            {},
        ),
    ]
