"""Texts of what it saw are kept, the last ten of them."""

import json

import torch
from torch import nn

OPEN = {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.lines = []

    def forward(self, x):
        self.lines.append(json.dumps({"mean": round(x.mean().item(), 3)}))
        if len(self.lines) > 10:
            self.lines.pop(0)
        return self.layer(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [((torch.randn(2, 3) * 500,), {}), ((torch.zeros(2, 3),), {})]
