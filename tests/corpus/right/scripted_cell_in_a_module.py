"""A scripted submodule inside a traced one."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 3)

    def forward(self, x):
        state = torch.zeros(x.size(0), 3)
        for step in range(x.size(1)):
            state = self.cell(x[:, step], state)
        return state


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.jit.script(Cell())
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.cell(x))


def example():
    return (torch.randn(2, 4, 2),), {}


def others():
    return [
        ((torch.randn(1, 7, 2),), {}),
        ((torch.randn(5, 1, 2),), {}),
    ]
