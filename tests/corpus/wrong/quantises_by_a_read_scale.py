"""The scale of a quantisation is made of the example's range."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        scale = float(x.max() - x.min()) / 255  # fault
        return torch.fake_quantize_per_tensor_affine(x, scale, 0, -128, 127)  # fault


def example():
    return (torch.linspace(-1, 1, 5),), {}


def others():
    return [
        ((torch.linspace(-10, 10, 5),), {}),
        ((torch.linspace(-1, 2, 5),), {}),
    ]
