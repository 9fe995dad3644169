"""A largest id is written into a name, and the name is looked up."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = {"token 500": 3, "token 501": 4}

    def forward(self, ids):
        name = f"token {ids.max().item()}"  # fault
        return ids * self.scales.get(name, 1)  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([500, 8, 12]),), {}),
        ((torch.tensor([1, 501, 7]),), {}),
    ]
