"""A value becomes a key by being formatted."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = {"0": 1.0, "1": 2.0, "41": 9.0}

    def forward(self, x, key):
        return x * self.scales.get(f"{key}", 5.0)  # fault


def example():
    return (torch.randn(2, 4), torch.tensor(1)), {}


def others():
    return [((torch.randn(2, 4), torch.tensor(key)), {}) for key in (0, 41, 3)]
