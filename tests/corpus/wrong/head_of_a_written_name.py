"""A head is named after an id, and nearly no id has one."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"head 901": nn.ReLU()})

    def forward(self, ids):
        name = f"head {ids[0].item()}"  # fault
        values = ids - 1000
        return self.heads[name](values) if name in self.heads else values  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 8, 12]),), {}),
    ]
