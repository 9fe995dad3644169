"""The pooled length is half of the example's for every input."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool1d(x, x.shape[2] // 2)  # fault


def example():
    return (torch.randn(1, 2, 8),), {}


def others():
    return [
        ((torch.randn(1, 2, 12),), {}),
        ((torch.randn(1, 2, 4),), {}),
    ]
