"""Token, place and segment embeddings, an attention mask that is widened, a pooled output."""

import torch
from torch import nn

OPEN = {"ids": [0, 1], "mask": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.places = nn.Embedding(16, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.register_buffer("place_ids", torch.arange(16)[None], persistent=False)

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.places(self.place_ids[:, : ids.size(1)]))
        x = x + self.attention(x, x, x, key_padding_mask=mask == 0, need_weights=False)[0]
        return {"hidden": x, "pooled": torch.tanh(x[:, 0])}


def example():
    return (), dict(ids=torch.randint(0, 30, (2, 5)), mask=torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]))


def others():
    return [
        ((), dict(ids=torch.randint(0, 30, (1, 16)), mask=torch.ones(1, 16, dtype=torch.long))),
        ((), dict(ids=torch.randint(0, 30, (3, 2)), mask=torch.tensor([[1, 1], [1, 0], [1, 1]]))),
    ]
