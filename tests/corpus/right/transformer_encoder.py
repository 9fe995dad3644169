"""torch's encoder layers with a padding mask."""

import torch
from torch import nn

OPEN = {"x": [0, 1], "padding": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding)


def example():
    return (
        torch.randn(2, 4, 8),
        torch.tensor([[False, False, False, True], [False, False, True, True]]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 3, 8),
                torch.tensor([[False, False, False]]),
            ),
            {},
        ),
        (
            (
                torch.randn(3, 6, 8),
                torch.zeros(3, 6, dtype=torch.bool),
            ),
            {},
        ),
    ]
