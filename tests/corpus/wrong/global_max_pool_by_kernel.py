"""The pooling window is the whole length, and stays the example's: a longer input keeps only its beginning."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 3, padding=1)

    def forward(self, x):
        features = self.conv(x)
        return F.max_pool1d(features, features.size(2))[:, :, 0]  # fault


def example():
    return (torch.randn(2, 2, 6),), {}


def others():
    return [
        ((torch.randn(2, 2, 9),), {}),
        ((torch.randn(2, 2, 4),), {}),
    ]
