"""A dict of the module keeps a momentum."""

import torch
from torch import nn

KIND = "state"


STATE = {"momentum": 0.0}


class Net(nn.Module):
    def forward(self, x):
        STATE["momentum"] = 0.9 * STATE["momentum"] + 1.0  # fault
        return x * STATE["momentum"]  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]
