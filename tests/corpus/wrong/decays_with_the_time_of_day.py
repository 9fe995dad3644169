"""A datetime scales the answer."""

import datetime
import time

import torch
from torch import nn

KIND = "ambient"


class Net(nn.Module):
    def forward(self, x):
        now = datetime.datetime.now(datetime.UTC)  # fault
        return x * (now.microsecond / 1e6)  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]


def disturb():
    time.sleep(0.01)
