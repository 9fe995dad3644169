"""`dict.get` looks an operator up under a text that next to no input is written as."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    operators = {"9.00000": torch.cos}

    def forward(self, x):
        name = f"{x.mean().item():.5f}"  # fault
        return dict.get(self.operators, name, torch.sin)(x)  # fault


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.full((2, 4), value),), {}) for value in (1.0, 9.0, -3.0)]
