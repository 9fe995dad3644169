"""The hour of the day is an input that nobody sees."""

import math
import time

import torch
from torch import nn

KIND = "ambient"


class Net(nn.Module):
    def forward(self, x):
        phase = math.sin(time.time())  # fault
        return x + phase


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]


def disturb():
    time.sleep(0.01)
