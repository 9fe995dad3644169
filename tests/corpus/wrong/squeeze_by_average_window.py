"""The squeeze of a squeeze-and-excitation block pools with a window of the example's height and width."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.gate = nn.Linear(4, 4)

    def forward(self, x):
        x = self.conv(x)
        squeezed = F.avg_pool2d(x, kernel_size=(int(x.size(2)), int(x.size(3))))  # fault
        return x * torch.sigmoid(self.gate(squeezed[:, :, 0, 0]))[:, :, None, None]


def example():
    return (torch.randn(1, 2, 4, 4),), {}


def others():
    return [
        ((torch.randn(1, 2, 6, 6),), {}),
        ((torch.randn(2, 2, 5, 8),), {}),
    ]
