"""A long convolution by Fourier transforms, twice the length."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor([0.5, 0.1]))

    def forward(self, x):
        length = x.shape[1]
        kernel = torch.exp(-self.rate[None] * torch.arange(length)[:, None])
        wide = torch.fft.irfft(
            torch.fft.rfft(x, n=2 * length, dim=1) * torch.fft.rfft(kernel, n=2 * length, dim=0), dim=1
        )
        return wide[:, :length]


def example():
    return (torch.randn(2, 6, 2),), {}


def others():
    return [
        ((torch.randn(1, 15, 2),), {}),
        ((torch.randn(3, 1, 2),), {}),
    ]
