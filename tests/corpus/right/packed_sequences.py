"""Sentences of different lengths, packed for a recurrent network in both directions, and unpacked to the longest."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

OPEN = {"words": [0, 1], "lengths": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True, bidirectional=True, num_layers=2)
        self.tags = nn.Linear(8, 2)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        packed, _ = self.rnn(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True)
        is_word = torch.arange(states.shape[1])[None] < lengths[:, None]
        return self.tags(states) * is_word[:, :, None]


def example():
    return (torch.randn(3, 7, 3), torch.tensor([5, 7, 2])), {}


def others():
    return [
        ((torch.randn(1, 1, 3), torch.tensor([1])), {}),
        ((torch.randn(4, 6, 3), torch.tensor([2, 1, 4, 3])), {}),
        ((torch.randn(2, 40, 3), torch.tensor([1, 40])), {}),
        ((torch.randn(30, 2, 3), torch.ones(30, dtype=torch.int64)), {}),
    ]
