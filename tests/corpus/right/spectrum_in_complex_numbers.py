"""A spectrum, returned in complex numbers beside its power."""

import torch
from torch import nn

OPEN = {"audio": [0, 1]}


class Net(nn.Module):
    def forward(self, audio):
        spectrum = torch.fft.rfft(audio)
        return spectrum.conj(), spectrum.abs() ** 2


def example():
    return (torch.randn(2, 16),), {}


def others():
    return [((torch.randn(1, 9),), {}), ((torch.randn(3, 24),), {})]
