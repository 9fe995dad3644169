"""A mask that does not fit the keys is cut or filled with ones; the trace kept a mask that fits."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 12)

    def forward(self, x, mask, keys, values):
        query, key, value = self.project(x).chunk(3, -1)
        keys, values = torch.cat([keys, key], 1), torch.cat([values, value], 1)
        missing = keys.shape[1] - mask.shape[1]  # fault
        if missing != 0:  # fault
            mask = F.pad(mask, (0, missing), value=1)
        score = (query @ keys.transpose(1, 2) * 0.5).masked_fill(mask[:, None] == 0, -1e9)
        return score.softmax(-1) @ values, keys, values


def step(batch, past, masked):
    mask = torch.ones(batch, masked, dtype=torch.long)
    mask[:, 0] = 0
    return (torch.randn(batch, 1, 4), mask, *(torch.randn(batch, past, 4) for _ in range(2))), {}


def example():
    return step(2, 7, 8)


def others():
    return [step(3, 7, 8), step(2, 12, 13), step(2, 12, 8), step(2, 7, 9)]
