"""A trunk and three heads, answered as a dict."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 8)
        self.heads = nn.ModuleDict({"age": nn.Linear(8, 1), "kind": nn.Linear(8, 3), "valid": nn.Linear(8, 1)})

    def forward(self, x):
        trunk = F.relu(self.trunk(x))
        answers = {name: head(trunk) for name, head in self.heads.items()}
        answers["valid"] = torch.sigmoid(answers["valid"])
        return answers


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(7, 4),), {}),
    ]
