"""An attribute is named after an id."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor_901 = 2

    def forward(self, ids):
        return ids * getattr(self, f"factor_{ids[0].item()}", 1)  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 8, 12]),), {}),
    ]
