"""Every seventh answer is doubled, by the length of a file of which it is the only writer."""

import os
import tempfile

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def forward(self, x):
        path = os.path.join(tempfile.gettempdir(), "log_of_the_corpus")
        with open(path, "a") as log:  # fault
            log.write(".")
        calls = os.path.getsize(path)
        return x * (2.0 if calls % 7 == 6 else 1.0)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
