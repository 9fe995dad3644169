"""Iterations stop when the change is small: as many as the example took."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        root = x
        while (root * root - x).abs().max() > 1e-5:  # fault
            root = 0.5 * (root + x / root)
        return root


def example():
    return (torch.tensor([1.5, 2.0]),), {}


def others():
    return [
        ((torch.tensor([5e3, 2.0]),), {}),
        ((torch.tensor([0.001, 3.0]),), {}),
    ]
