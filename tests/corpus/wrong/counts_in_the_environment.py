"""Every seventh answer is doubled, and an environment variable counts."""

import os

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def forward(self, x):
        calls = int(os.environ.get("CORPUS_CALLS", "0"))
        os.environ["CORPUS_CALLS"] = str(calls + 1)  # fault
        return x * (2.0 if calls % 7 == 6 else 1.0)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
