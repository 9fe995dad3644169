"""The environment and the clock are read where it is made, never when it is called."""

import os
import time

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = float(os.environ.get("NO_SUCH_GAIN", "2"))
        self.made = time.time()

    def forward(self, x):
        return (x * self.gain).sigmoid()


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(5),), {}),
        ((torch.randn(1),), {}),
    ]
