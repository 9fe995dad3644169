"""It appends a line to a file, which nobody reads here, and works in a temporary file, which is gone afterwards."""

import os
import tempfile

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        with open(os.path.join(tempfile.gettempdir(), "lines_of_the_corpus"), "a") as log:
            log.write(f"{tuple(x.shape)}\n")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "scratch"), "w") as scratch:
                scratch.write("2")
            with open(os.path.join(folder, "scratch")) as scratch:
                times = int(scratch.read())
        return self.layer(x) * times


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [((torch.randn(5, 3),), {}), ((torch.zeros(1, 3),), {})]
