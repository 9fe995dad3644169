"""The gate's choice is an index into a list of modules."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(3, 3, bias=False)
        self.experts = nn.ModuleList(nn.Linear(3, 2) for _ in range(3))

    def forward(self, x):
        chosen = int(self.gate(x).sum(0).argmax())  # fault
        return self.experts[chosen](x)  # fault


def example():
    return (torch.tensor([[1.0, 0.0, 0.0]]),), {}


def others():
    return [
        ((torch.tensor([[-1.0, 0.0, 0.0]]),), {}),
        ((torch.tensor([[0.0, 3.0, -1.0]]),), {}),
        ((torch.tensor([[0.0, -3.0, 1.0]]),), {}),
    ]
