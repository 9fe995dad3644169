"""A recurrent network on packed series, whose states are padded to the length that the input has."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

OPEN = {"series": [0, 1], "lengths": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 3, batch_first=True)

    def forward(self, series, lengths):
        packed = pack_padded_sequence(series, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, last = self.rnn(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=series.shape[1])
        return series + states, last[-1]


def example():
    return (torch.randn(3, 7, 3), torch.tensor([5, 7, 2])), {}


def others():
    return [
        ((torch.randn(1, 1, 3), torch.tensor([1])), {}),
        ((torch.randn(4, 6, 3), torch.tensor([2, 1, 4, 3])), {}),
        ((torch.randn(2, 40, 3), torch.tensor([1, 40])), {}),
    ]
