"""One kernel per channel: `groups` is the example's number of channels."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", torch.tensor([[[0.25, 0.5, 0.25]]]))

    def forward(self, x):
        channels = x.size(1)
        return F.conv1d(x, self.kernel.expand(channels, 1, 3), padding=1, groups=channels)  # fault


def example():
    return (torch.randn(2, 3, 6),), {}


def others():
    return [
        ((torch.randn(2, 5, 6),), {}),
        ((torch.randn(2, 1, 6),), {}),
    ]
