"""A decoder step whose keys and values are stacked by layer, and which asks whether its mask leaves a token."""

import torch
from torch import nn

OPEN = {"ids": [0], "mask": [0, 1], "keys": [1, 3], "values": [1, 3]}
LAYERS = 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.project = nn.ModuleList(nn.Linear(8, 24) for _ in range(LAYERS))

    def forward(self, ids, mask, keys, values):
        x, kept = self.embed(ids), []
        for project, past_key, past_value in zip(self.project, keys, values, strict=True):
            query, key, value = project(x).view(*ids.shape, 3, 2, 4).permute(2, 0, 3, 1, 4)
            key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
            kept.append((key, value))
            if not bool(mask.any()):
                raise ValueError("the mask leaves no token")
            score = (query @ key.transpose(2, 3) * 0.5).masked_fill(mask[:, None, None] == 0, -1e9)
            x = x + (score.softmax(-1) @ value).transpose(1, 2).reshape(x.shape)
        return x, torch.stack([key for key, _ in kept]), torch.stack([value for _, value in kept])


def step(batch, past):
    mask = torch.ones(batch, past + 1, dtype=torch.long)
    mask[1:, : past // 3] = 0
    kept = [torch.randn(LAYERS, batch, 2, past, 4) for _ in range(2)]
    return (torch.randint(0, 20, (batch, 1)), mask, *kept), {}


def example():
    return step(2, 7)


def others():
    return [step(1, 7), step(3, 7), step(1, 2), step(4, 33), step(2, 16)]
