"""A mask that does not fit is mended, and of many keys only the last are kept: the trace kept a fitting mask of few."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"
WINDOW = 24


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 12)

    def forward(self, x, mask, keys, values):
        query, key, value = self.project(x).chunk(3, -1)
        keys, values = torch.cat([keys, key], 1), torch.cat([values, value], 1)
        if keys.shape[1] > mask.shape[1]:
            mask = F.pad(mask, (0, keys.shape[1] - mask.shape[1]), value=1)
        if keys.shape[1] > WINDOW:  # fault
            mask, keys, values = mask[:, -WINDOW:], keys[:, -WINDOW:], values[:, -WINDOW:]
        score = (query @ keys.transpose(1, 2) * 0.5).masked_fill(mask[:, None, : keys.shape[1]] == 0, -1e9)
        return score.softmax(-1) @ values


def step(batch, past):
    mask = torch.ones(batch, past + 1, dtype=torch.long)
    mask[:, 0] = 0
    return (torch.randn(batch, 1, 4), mask, *(torch.randn(batch, past, 4) for _ in range(2))), {}


def example():
    return step(2, 7)


def others():
    return [step(3, 7), step(2, 12), step(2, 23), step(2, 24), step(1, 60)]
