"""Upsampling goes to the size of the skip connection."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"image": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.Conv2d(5, 1, 3, padding=1)

    def forward(self, image):
        low = F.relu(self.middle(F.relu(self.down(image))))
        raised = F.interpolate(low, size=image.shape[2:], mode="bilinear", align_corners=False)
        return self.up(torch.cat([raised, image], 1))


def example():
    return (torch.randn(1, 1, 8, 8),), {}


def others():
    return [
        ((torch.randn(2, 1, 8, 12),), {}),
        ((torch.randn(1, 1, 9, 7),), {}),
    ]
