"""A debug log with a value of the input."""

import logging

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def forward(self, x):
        logging.getLogger(__name__).debug("largest %s of %s", float(x.max()), tuple(x.shape))
        return x.softmax(-1)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(1, 6),), {}),
        ((torch.randn(3, 1),), {}),
    ]
