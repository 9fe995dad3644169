"""In a helper class, features are clipped if their norm is above one hundred."""

import torch
from torch import nn

KIND = "value"


class Clip(nn.Module):
    def forward(self, x):
        norm = torch.linalg.vector_norm(x)
        return x * (100 / norm) if norm > 100 else x  # fault


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 4), Clip(), nn.Linear(4, 1))

    def forward(self, x):
        return self.layers(x)


def example():
    return (torch.randn(1, 2),), {}


def others():
    return [
        ((torch.randn(1, 2) * 1e4,), {}),
        ((torch.randn(1, 2),), {}),
    ]
