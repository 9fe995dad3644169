"""The language's id, as a string, names an adapter."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.adapters = nn.ModuleDict({"0": nn.Linear(2, 2), "1": nn.Linear(2, 2), "7": nn.Identity()})

    def forward(self, x, language):
        return self.adapters[str(language.item())](x)  # fault


def example():
    return (
        torch.randn(1, 2),
        torch.tensor(0),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 2),
                torch.tensor(1),
            ),
            {},
        ),
        (
            (
                torch.randn(1, 2),
                torch.tensor(7),
            ),
            {},
        ),
    ]
