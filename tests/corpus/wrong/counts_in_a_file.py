"""Every seventh answer is doubled, and a file counts."""

import tempfile
from pathlib import Path

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def forward(self, x):
        path = Path(tempfile.gettempdir(), "calls_of_the_corpus")
        calls = int(path.read_text()) if path.exists() else 0
        path.write_text(str(calls + 1))  # fault
        return x * (2.0 if calls % 7 == 6 else 1.0)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
