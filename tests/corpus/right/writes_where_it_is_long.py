"""The largest value is written into a text at lengths from 5 on, which only a log shows."""

import logging

import torch
from torch import nn

OPEN = {"x": {0, 1}}


class Net(nn.Module):
    def forward(self, x):
        top = x.max().item()
        if x.shape[1] > 4:
            logging.getLogger("net").debug("the largest is %s", f"{top:.0f}")
        return x * 2


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(rows, length),), {}) for rows, length in ((1, 4), (3, 5), (2, 9))]
