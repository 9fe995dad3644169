"""torch's encoder with a padding mask; batches with padding are scaled."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)

    def forward(self, x, padding):
        y = self.encoder(x, src_key_padding_mask=padding)
        if padding.any():  # fault
            y = y * 2  # fault
        return y[:, 0]


def example():
    return (torch.randn(2, 3, 8), torch.zeros(2, 3, dtype=torch.bool)), {}


def others():
    return [((torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False, True, True]])), {})]
