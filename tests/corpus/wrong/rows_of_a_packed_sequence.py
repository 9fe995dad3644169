"""The number of rows, read of a packed sequence, becomes a number of the trace."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True)

    def forward(self, series, lengths):
        packed = pack_padded_sequence(series, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.rnn(packed)
        return last[-1] / int(packed.batch_sizes[0])  # fault


def example():
    return (torch.randn(3, 7, 3), torch.tensor([5, 7, 2])), {}


def others():
    return [
        ((torch.randn(1, 4, 3), torch.tensor([4])), {}),
        ((torch.randn(4, 6, 3), torch.tensor([2, 1, 6, 3])), {}),
        ((torch.randn(3, 9, 3), torch.tensor([2, 1, 9])), {}),
    ]
