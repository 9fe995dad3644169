"""Patches by unfold with constant sizes."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"image": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 3)

    def forward(self, image):
        return self.project(F.unfold(image, 2, stride=2).transpose(1, 2))


def example():
    return (torch.randn(1, 1, 4, 4),), {}


def others():
    return [
        ((torch.randn(2, 1, 6, 4),), {}),
        ((torch.randn(1, 1, 3, 9),), {}),
    ]
