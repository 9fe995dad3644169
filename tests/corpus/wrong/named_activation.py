"""The name of an activation is chosen by the sign of the input."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.activations = {"dark": torch.sigmoid, "light": torch.tanh}

    def forward(self, x):
        name = "dark" if x.min() < 0 else "light"  # fault
        return self.activations[name](x)


def example():
    return (torch.tensor([[-1.0, 2.0]]),), {}


def others():
    return [
        ((torch.tensor([[1.0, 2.0]]),), {}),
        ((torch.tensor([[-3.0, 0.0]]),), {}),
    ]
