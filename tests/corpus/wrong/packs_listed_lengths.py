"""The lengths of packed sequences are handed over as a list of numbers."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.tolist(), batch_first=True, enforce_sorted=False)  # fault
        _, (state, _) = self.lstm(packed)  # fault
        return state[0]


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
                torch.tensor([1, 4]),
            ),
            {},
        ),
        (
            (
                torch.randn(2, 4, 2),
                torch.tensor([3, 3]),
            ),
            {},
        ),
    ]
