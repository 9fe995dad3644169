"""A classifier of tokens as BERT: the padding is known by its id, and the first position is what is classified."""

import torch
from torch import nn

OPEN = {"ids": [0, 1]}
WITHOUT_FAST_PATHS = True


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(30, 8, padding_idx=0)
        self.positions = nn.Parameter(torch.randn(64, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions[: ids.shape[1]]
        y = self.encoder(x, src_key_padding_mask=ids == 0)
        return self.head(y[:, 0])


def example():
    return (torch.tensor([[3, 7, 12, 5, 9], [3, 8, 5, 0, 0]]),), {}


def others():
    return [
        ((torch.tensor([[3, 11, 5]]),), {}),
        ((torch.tensor([[3, 5, 0, 0, 0, 0], [3, 6, 7, 8, 9, 5], [3, 29, 28, 5, 0, 0]]),), {}),
    ]
