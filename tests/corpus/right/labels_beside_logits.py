"""A classifier that returns its labels, its temperature and nothing more beside its logits."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        logits = self.layer(x)
        return {"logits": logits, "labels": ["cat", "dog", "cow"], "temperature": 1.5, "hidden": (logits * 2, None)}


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(1, 4),), {}), ((torch.randn(5, 4),), {})]
