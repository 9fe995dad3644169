"""torch's decoder with a causal mask made of the target's length."""

import torch
from torch import nn

OPEN = {"target": [0, 1], "memory": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 1)

    def forward(self, target, memory):
        length = target.shape[1]
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        return self.decoder(target, memory, tgt_mask=hidden)


def example():
    return (
        torch.randn(2, 3, 8),
        torch.randn(2, 5, 8),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2, 6, 8),
                torch.randn(2, 4, 8),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 1, 8),
                torch.randn(1, 2, 8),
            ),
            {},
        ),
    ]
