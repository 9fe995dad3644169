"""The two best experts of each token, by topk, gather and scatter."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.randn(4, 4, 2))

    def forward(self, x):
        best, chosen = self.gate(x).topk(2, dim=-1)
        answers = torch.einsum("bi,bkio->bko", x, self.weight[chosen])
        return (answers * best.softmax(-1).unsqueeze(-1)).sum(1)


def example():
    return (torch.randn(3, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(6, 4),), {}),
    ]
