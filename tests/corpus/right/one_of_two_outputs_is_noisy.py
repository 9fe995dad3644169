"""The logits are right; the confidence beside them is estimated with dropout. The artifact draws the same."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        logits = self.head(x)
        spread = torch.stack([F.dropout(logits, 0.3) for _ in range(3)]).std(0)
        return {"logits": logits, "spread": spread}


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
    ]
