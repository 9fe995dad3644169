"""Four agents by name: the loop has a number of its own, not the input's."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.agents = nn.ModuleList(nn.Linear(3, 2) for _ in range(4))

    def forward(self, x):
        return torch.stack([agent(part) for agent, part in zip(self.agents, x.unbind(1), strict=True)], 1)


def example():
    return (torch.randn(2, 4, 3),), {}


def others():
    return [
        ((torch.randn(1, 4, 3),), {}),
        ((torch.randn(6, 4, 3),), {}),
    ]
