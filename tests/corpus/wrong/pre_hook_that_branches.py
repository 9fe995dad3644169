"""A hook before the layer mends negative inputs where there are any."""

import torch
from torch import nn

KIND = "value"


def mended(module, inputs):
    (x,) = inputs
    if (x < -100).any():  # fault
        return (x.clamp(min=0),)
    return None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.layer.register_forward_pre_hook(mended)

    def forward(self, x):
        return self.layer(x)


def example():
    return (torch.randn(1, 2),), {}


def others():
    return [
        ((torch.tensor([[-200.0, 1.0]]),), {}),
        ((torch.randn(1, 2),), {}),
    ]
