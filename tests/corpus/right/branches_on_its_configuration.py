"""A branch on an attribute and one on a buffer that nothing changes."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("use_norm", torch.tensor(True))
        self.kind = "gelu"
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        if self.use_norm:
            y = F.layer_norm(y, (4,))
        return F.gelu(y) if self.kind == "gelu" else F.relu(y)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(6, 4),), {}),
    ]
