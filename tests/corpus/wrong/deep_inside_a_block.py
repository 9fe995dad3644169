"""Three modules down, a pooling window is made of the input's width."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Squeeze(nn.Module):
    def forward(self, x):
        return F.avg_pool1d(x, x.shape[-1])  # fault


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.squeeze = Squeeze()
        self.mix = nn.Conv1d(4, 4, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.mix(self.squeeze(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.Sequential(nn.ReLU(), Gate()), nn.Conv1d(4, 2, 1))

    def forward(self, x):
        return self.body(x)


def example():
    return (torch.randn(1, 2, 6),), {}


def others():
    return [
        ((torch.randn(1, 2, 12),), {}),
        ((torch.randn(3, 2, 6),), {}),
    ]
