"""A generator of transposed convolutions from a latent vector."""

import torch
from torch import nn

OPEN = {"latent": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(4, 8 * 2 * 2)
        self.up = nn.Sequential(
            nn.BatchNorm2d(8), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(4, 1, 4, 2, 1)
        )

    def forward(self, latent):
        return torch.tanh(self.up(self.start(latent).view(-1, 8, 2, 2)))


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(1, 4),), {}),
        ((torch.randn(6, 4),), {}),
    ]
