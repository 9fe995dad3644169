"""The part of the second that has passed is an input that nobody sees."""

import time

import torch
from torch import nn

KIND = "ambient"


class Net(nn.Module):
    def forward(self, x):
        phase = time.time() % 1.0  # fault
        return x + phase


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]


def disturb():
    time.sleep(0.01)
