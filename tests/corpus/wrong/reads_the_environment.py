"""An environment variable sets the gain at each call."""

import os

import torch
from torch import nn

KIND = "ambient"


class Net(nn.Module):
    def forward(self, x):
        return x * float(os.environ.get("CORPUS_GAIN", "1.0"))  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]


def disturb():
    os.environ["CORPUS_GAIN"] = "3.0"
