"""torch's attention with a padding mask, and its weights."""

import torch
from torch import nn

OPEN = {"x": [0, 1], "padding": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, padding):
        return self.attention(x, x, x, key_padding_mask=padding)


def example():
    return (
        torch.randn(2, 4, 8),
        torch.tensor([[False, False, False, True], [False, False, True, True]]),
    ), {}


def others():
    left = torch.tensor([[True, False, False], [True, True, False], [False, False, False]])
    return [
        ((torch.randn(3, 3, 8), left), {}),
        ((torch.randn(1, 5, 8), torch.zeros(1, 5, dtype=torch.bool)), {}),
    ]
