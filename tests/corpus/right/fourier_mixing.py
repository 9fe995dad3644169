"""FNet: Fourier transforms in the place of attention."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)


def example():
    return (torch.randn(2, 6, 4),), {}


def others():
    return [
        ((torch.randn(1, 11, 4),), {}),
        ((torch.randn(3, 1, 4),), {}),
    ]
