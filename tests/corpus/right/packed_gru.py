"""Sequences of different lengths are packed and padded again; the lengths stay a tensor."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, _ = self.gru(packed)
        return nn.utils.rnn.pad_packed_sequence(states, batch_first=True)[0]


def example():
    return (
        torch.randn(2, 4, 2),
        torch.tensor([4, 2]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2, 4, 2),
                torch.tensor([3, 4]),
            ),
            {},
        ),
        (
            (
                torch.randn(3, 4, 2),
                torch.tensor([1, 4, 2]),
            ),
            {},
        ),
    ]
