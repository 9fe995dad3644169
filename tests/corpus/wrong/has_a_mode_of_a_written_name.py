"""Whether the model has an attribute of the name that it writes decides the answer."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    mode_72 = True

    def forward(self, x):
        name = f"mode_{x.sum().item():.0f}"  # fault
        return x * 2 if hasattr(self, name) else x  # fault


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.full((2, 4), value),), {}) for value in (1.0, 9.0, -3.0)]
