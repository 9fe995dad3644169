"""The bound of a clamp is a number read from the input."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        bound = x.median().item()  # fault
        return x.clamp(max=bound)  # fault


def example():
    return (torch.tensor([1.0, 2.0, 3.0]),), {}


def others():
    return [
        ((torch.tensor([4.0, 5.0, 6.0]),), {}),
        ((torch.tensor([-1.0, 0.0, 9.0]),), {}),
    ]
