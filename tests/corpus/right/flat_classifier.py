"""A flattened image goes into a Linear: the height and width are fixed by its weights."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"image": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.head = nn.Linear(2 * 4 * 4, 3)

    def forward(self, image):
        return self.head(torch.flatten(F.relu(self.conv(image)), 1))


def example():
    return (torch.randn(2, 1, 6, 6),), {}


def others():
    return [
        ((torch.randn(5, 1, 6, 6),), {}),
        ((torch.randn(1, 1, 6, 6),), {}),
    ]
