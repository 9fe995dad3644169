"""A shape is logged as text."""

import logging

import torch
from torch import nn

OPEN = {"x": [0, 1]}

log = logging.getLogger(__name__)


class Net(nn.Module):
    def forward(self, x):
        log.info("shape %s, %s wide", x.shape, f"{x.shape[1]:4d}")
        print("shape", str(tuple(x.shape)))
        return x.tanh()


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(5, 37),), {}), ((torch.randn(1, 9),), {})]
